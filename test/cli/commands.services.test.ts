import { execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import amqp from 'amqplib'
import { describe, expect, it } from 'vitest'
import { createVhost, limitedUser } from '../support/broker/rabbit.ts'
import { Gateway, gatewayProcessForAll } from '../support/gateway/gateway.ts'
import { eventually } from '../support/gateway/in-process.ts'
import { isOnPostgres } from '../support/gateway/test-ledger.ts'

const MAIN = resolve(import.meta.dirname, '../../dist/main.js')

const RECOVER = ['recover', '--queue', 'q', '--url']

interface Ended {
  code: number
  out: string
  err: string
}

/** Runs the command line without any setting of this process's environment. */
function cli(args: string[], env: Record<string, string> = {}): Promise<Ended> {
  return new Promise((done) => {
    // A command that hangs must not outlive its test.
    const end = { timeout: 30_000, killSignal: 'SIGKILL' } as const
    const options = { env: { PATH: process.env['PATH'], ...env }, ...end }
    execFile(process.execPath, [MAIN, ...args], options, (error, out, err) => {
      done({ code: typeof error?.code === 'number' ? error.code : 0, out, err })
    })
  })
}

describe('ojs-rabbitmq', () => {
  const { vhost, gateway } = gatewayProcessForAll()

  it('--help names every command and variable', async () => {
    const { code, out } = await cli(['--help'])
    expect(code).toBe(0)
    const variables = ['OJS_QUEUE_TYPE', 'OJS_URL', 'with OJS_API_KEY']
    for (const word of ['serve', 'topology diff', 'recover', 'prune', 'key new', ...variables]) {
      expect(out).toContain(word)
    }
  })

  it('refuses an unknown command, subcommand or variable', async () => {
    // One line instead of the help, which would scroll the mistake off the screen.
    const err = "ojs-rabbitmq: unknown command 'sevre'; see ojs-rabbitmq --help\n"
    expect(await cli(['sevre'])).toEqual({ code: 2, out: '', err })
    expect((await cli(['topology'])).code).toBe(2)
    expect((await cli(['recover'])).code).toBe(2)
    expect((await cli(['constructor'])).code).toBe(2)
    const misspelt = await cli(['serve'], { OJS_QUEUE_TIPE: 'quorum' })
    expect(misspelt).toMatchObject({ code: 1 })
    expect(misspelt.err).toContain('did you mean OJS_QUEUE_TYPE?')
  })

  it('prints the usage on stderr and exits 2 for arguments that a command does not take', async () => {
    const mistaken = [
      ['recover', '--bogus'],
      ['recover', '--queue'],
      ['recover', 'q'],
      ['prune', 'q'],
      ['key', 'new', '--bogus'],
    ]
    for (const ended of await Promise.all(mistaken.map((args) => cli(args)))) {
      expect(ended).toMatchObject({ code: 2, out: '' })
      expect(ended.err).toContain('usage: ojs-rabbitmq ')
    }
  })

  it('COMMAND --help prints its usage on stdout and exits 0', async () => {
    for (const command of [
      'serve',
      'topology',
      'recover',
      'prune',
      'key',
      'topology diff',
      'key new',
    ]) {
      const { code, out, err } = await cli([...command.split(' '), '--help'])
      expect({ code, err }, command).toEqual({ code: 0, err: '' })
      expect(out).toContain(`usage: ojs-rabbitmq ${command}`)
    }
  })

  it('--version prints the version of package.json', async () => {
    const { version } = JSON.parse(readFileSync(resolve(MAIN, '../../package.json'), 'utf8'))
    expect(await cli(['--version'])).toEqual({ code: 0, out: `${version}\n`, err: '' })
  })

  it('serve refuses to listen on all addresses without keys, before it starts anything', async () => {
    const open = await cli(['serve'], { OJS_HOST: '0.0.0.0', OJS_AMQP_URL: vhost.url })
    expect(open).toMatchObject({ code: 1, out: '' })
    expect(open.err).toContain('OJS_ALLOW_OPEN=1')
  })

  it("key new prints a key and its entry with the key's SHA-256", async () => {
    const { code, out } = await cli(['key', 'new', '--name', 'shop', '--role', 'worker'])
    expect(code).toBe(0)
    const [, key = '', hash] = /^key +(\S+)\nentry +shop:worker:(\S+)\n$/.exec(out) ?? []
    expect(createHash('sha256').update(key).digest('hex')).toBe(hash)
    expect((await cli(['key', 'new'])).out).toContain('producer:producer:')
    const mistaken = [['new', '--role', 'king'], ['new', '--name', 'a:b'], [], ['old']]
    const ended = await Promise.all(mistaken.map((args) => cli(['key', ...args])))
    expect(ended.map((one) => one.code)).toEqual([2, 2, 2, 2])
  })

  it('key new exits 1 and says why when it cannot write the key', async () => {
    const full = openSync('/dev/full', 'w')
    const child = spawn(process.execPath, [MAIN, 'key', 'new'], { stdio: ['ignore', full, 'pipe'] })
    closeSync(full)
    let err = ''
    child.stderr?.on('data', (chunk) => {
      err += chunk
    })
    expect(await once(child, 'close')).toEqual([1, null])
    expect(err).toBe('ojs-rabbitmq: ENOSPC: no space left on device, write\n')
  })

  it('topology diff exits 0 without differences, and otherwise lists each one and exits 1', async () => {
    await gateway.client.push({ type: 'a', args: [], options: { queue: 'default' } })
    const env = { OJS_AMQP_URL: vhost.url }
    expect(await cli(['topology', 'diff'], env)).toMatchObject({ code: 0, out: 'no differences\n' })
    const differs = await cli(['topology', 'diff'], { ...env, OJS_QUEUE_TYPE: 'quorum' })
    expect(differs.code).toBe(1)
    expect(differs.out).toContain('ojs.queue.default')
    expect(differs.out).toContain(
      "it is a classic queue, expected quorum ('x-max-priority' is 10, expected none)",
    )
    const missing = await cli(['topology', 'diff'], { ...env, OJS_QUEUES: 'nowhere' })
    expect(missing.code).toBe(1)
    expect(missing.out).toContain('ojs.queue.nowhere')
  })

  it('topology diff escapes control characters in the arguments of a foreign queue', async () => {
    const connection = await amqp.connect(vhost.url)
    const channel = await connection.createChannel()
    const hidden = 'x\u001b[2K\rno differences\nno differences\u009b8m\u202e'
    await channel.assertQueue('ojs.queue.hidden', { deadLetterExchange: hidden, maxPriority: 10 })
    const env = { OJS_AMQP_URL: vhost.url, OJS_QUEUES: 'hidden' }
    const { code, out } = await cli(['topology', 'diff'], env)
    expect(code).toBe(1)
    expect(out).toContain("'x-dead-letter-exchange' is x\\u{1b}[2K\\u{d}no differences\\u{a}no")
    expect(out.split('\n')).not.toContain('no differences')
    expect(out).not.toMatch(/[^\P{C}\n]/u)
    await channel.deleteQueue('ojs.queue.hidden')
    await connection.close()
  })

  it('topology diff exits 2, not 1, when it could compare nothing', async () => {
    const away = await cli(['topology', 'diff'], { OJS_AMQP_URL: 'amqp://127.0.0.1:1' })
    expect(away).toMatchObject({ code: 2, out: '' })
    expect(away.err).toContain('RabbitMQ cannot be reached')
    expect(await cli(['topology', 'diff'], { OJS_PORT: 'x' })).toMatchObject({ code: 2, out: '' })
  })

  it('topology diff exits 2 and says why when the user may not compare what exists', async () => {
    const own = { configure: '^ojs\\.system\\.owner$', write: '.*', read: '.*' }
    const env = { OJS_AMQP_URL: await limitedUser(vhost, own), OJS_DECLARE: 'never' }
    const same = await cli(['topology', 'diff'], env)
    expect(same.code).toBe(2)
    expect(same.out).toContain("queue 'ojs.queue.default' exists, but cannot be compared")
    const missing = await cli(['topology', 'diff'], { ...env, OJS_QUEUES: 'nowhere' })
    expect(missing.code).toBe(1)
  })

  it('recover asks the running gateway', async () => {
    await gateway.client.push({ type: 'a', args: [], options: { queue: 'here' } })
    const args = (queue: string) => ['recover', '--queue', queue, '--url', gateway.url]
    const exists = await cli(args('here'))
    expect(exists.code).toBe(1)
    expect(exists.err).toContain('no job of it is known to have no message')
    expect((await cli(args('unknown'))).err).toContain('not_found')
  })

  it('prune asks the running gateway', async () => {
    const { code, out } = await cli(['prune', '--url', gateway.url])
    expect([code, out]).toEqual([0, '{"resumed":false}\n'])
  })

  it('recover keeps the path under which a proxy has the gateway', async () => {
    const asked: (string | undefined)[] = []
    const proxy = createServer(({ url }, response) => {
      asked.push(url)
      response.end('{}')
    }).listen(0, '127.0.0.1')
    await once(proxy, 'listening')
    const root = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`
    for (const path of ['', '/jobs', '/jobs/', '/jobs/ojs/v1']) await cli([...RECOVER, root + path])
    proxy.close()
    const own = '/ojs/v1/admin/queues/q/recover'
    expect(asked).toEqual([own, `/jobs${own}`, `/jobs${own}`, `/jobs${own}`])
  })

  it('recover says why no gateway answers, without the password in the URL', async () => {
    const { code, err } = await cli([...RECOVER, 'http://127.0.0.1:1'])
    expect(code).toBe(1)
    expect(err).toMatch(
      /^No gateway answers at http:\/\/127\.0\.0\.1:1 \(.*\b(bad port|ECONNREFUSED)\b/,
    )
    const secret = await cli([...RECOVER, 'http://me:hunter2@127.0.0.1:1'])
    expect(secret.code).toBe(1)
    expect(secret.err + secret.out).not.toContain('hunter2')
    expect(await cli([...RECOVER, 'nowhere'])).toMatchObject({ code: 2 })
  })

  it('recover reports a line end in OJS_API_KEY as a mistake instead of an unreachable gateway', async () => {
    const { code, err } = await cli([...RECOVER, gateway.url], { OJS_API_KEY: 'ojs_hunter2\r' })
    expect(code).toBe(2)
    expect(err).toMatch(/^OJS_API_KEY has a blank, a line end/)
    expect(err).not.toContain('hunter2')
  })

  it('recover treats an empty variable as unset, like serve', async () => {
    const { port } = new URL(gateway.url)
    const args = ['recover', '--queue', 'unknown']
    expect((await cli(args, { OJS_URL: '', OJS_PORT: port })).err).toContain('not_found')
    expect((await cli(args, { OJS_PORT: '' })).err).not.toContain('http://127.0.0.1: ')
  })

  // On PostgreSQL it stands by instead: test/failover.services.test.ts.
  it.skipIf(isOnPostgres)(
    'serve ends with one clear line when another gateway has the ledger',
    async () => {
      const second = await cli(['serve'], {
        OJS_AMQP_URL: vhost.url,
        OJS_LEDGER: `sqlite:${gateway.ledgerPath}`,
        OJS_PORT: '0',
      })
      expect(second.code).toBe(1)
      expect(second.err).toContain('in use by another process')
    },
  )

  it('serve ends with one clear line when it cannot create the folder of the ledger', async () => {
    const nowhere = await cli(['serve'], {
      OJS_AMQP_URL: vhost.url,
      OJS_LEDGER: 'sqlite:/proc/ojs/ojs.db',
      OJS_PORT: '0',
    })
    expect(nowhere.code).toBe(1)
    expect(nowhere.err).toMatch(
      /^ojs-rabbitmq: ledger \/proc\/ojs\/ojs\.db cannot be opened: .+\n$/,
    )
  })

  it('serve ends when its port is taken', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'ojs-cli-'))
    const taken = await cli(['serve'], {
      OJS_AMQP_URL: vhost.url,
      OJS_LEDGER: `sqlite:${join(dir, 'ojs.db')}`,
      OJS_PORT: new URL(gateway.url).port,
    })
    rmSync(dir, { recursive: true, force: true })
    expect(taken.code).toBe(1)
    expect(taken.err).toMatch(/EADDRINUSE.* \(OJS_HOST, OJS_PORT\)/)
  })

  it('serve works and stops cleanly while its log cannot be written to a full disk', async () => {
    const own = await createVhost()
    const stopped = await Gateway.start({ amqpUrl: own.url })
    const { port } = new URL(stopped.url)
    await stopped.stop()
    const env = {
      PATH: process.env['PATH'],
      OJS_AMQP_URL: own.url,
      OJS_LEDGER: stopped.ledger.url,
      OJS_PORT: port,
    }
    const full = openSync('/dev/full', 'w')
    const child = spawn(process.execPath, [MAIN, 'serve'], { env, stdio: ['ignore', full, 'pipe'] })
    closeSync(full)
    const exited = once(child, 'exit')
    try {
      const isUp = () => stopped.client.health().then(({ status }) => status === 200)
      await eventually(() => isUp().catch(() => false))
      await stopped.client.push({ type: 'a', args: [], options: { queue: 'q' } })
      child.kill('SIGTERM')
      expect(await exited).toEqual([0, null])
    } finally {
      child.kill('SIGKILL')
      await exited
      await stopped.dispose()
      await own.drop()
    }
  })

  it('serve answers waiting fetches and exits 0 on SIGTERM, and a waiting job stays in its queue', async () => {
    const own = await createVhost()
    const drained = await Gateway.start({ amqpUrl: own.url })
    await drained.untilHealthy()
    await drained.client.push({ type: 'a', args: [], options: { queue: 'q' } })
    const polling = drained.client.fetch({ queues: ['empty'], wait_ms: 30_000 })
    await eventually(async () => {
      const { text } = await drained.client.send('GET', '/metrics')
      return text.includes('ojs_fetch_waiters{queue="empty"} 1')
    })
    expect(await drained.stop()).toBe(0)
    expect((await polling).body).toEqual({ jobs: [] })
    const connection = await amqp.connect(own.url)
    const channel = await connection.createChannel()
    expect((await channel.checkQueue('ojs.queue.q')).messageCount).toBe(1)
    await connection.close()
    await drained.dispose()
    await own.drop()
  })
})
