import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, it, onTestFinished } from 'vitest'
import { gatewayForAll } from '../operations/harness.ts'
import { TcpProxy } from '../support/broker/tcp-proxy.ts'
import { eventually } from '../support/gateway/in-process.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const MAIN = join(ROOT, 'dist/main.js')
const { gateway } = gatewayForAll()

interface Ended {
  code: number
  out: string
  err: string
}

function run(file: string, args: readonly string[], env: Record<string, string> = {}) {
  return new Promise<Ended>((done) => {
    const options = { env: { PATH: process.env['PATH'], ...env }, timeout: 60_000 }
    execFile(file, [...args], options, (error, out, err) => {
      done({ code: typeof error?.code === 'number' ? error.code : 0, out, err })
    })
  })
}

const cli = (line: string, env: Record<string, string> = {}) =>
  run(process.execPath, [MAIN, ...line.split(' ')], { OJS_URL: gateway.url, ...env })

const documents = ({ out }: Ended) =>
  out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))

async function pushed(queue: string): Promise<string> {
  return (await gateway.push(queue)).body.job.id
}

it('jobs: list, show, cancel, retry, copy, delete', async () => {
  const [id, other] = [await pushed('clia'), await pushed('clia')]
  const table = await cli('jobs list --queue clia --order asc')
  expect(table.code).toBe(0)
  expect(table.out).toMatch(new RegExp(`^ID .*\\n${id}.*available.*\\n${other}`))
  const items = documents(await cli('jobs list --queue clia --limit 1 --json'))
  expect(items).toMatchObject([{ id: other }])
  expect(documents(await cli(`jobs show ${id} --json`))).toMatchObject([{ id, queue: 'clia' }])
  expect((await cli(`jobs cancel ${id}`)).code).toBe(0)
  expect((await cli(`jobs cancel ${id}`)).code).toBe(1)
  const both = await cli(`jobs cancel ${id} ${other}`)
  expect(both).toMatchObject({ code: 5, out: expect.stringContaining('1 done, 1 left alone') })
  expect((await cli(`jobs history ${id}`)).out).toContain('cancelled')
  const copy = (await cli(`jobs copy ${id} --args [7]`)).out.trim()
  expect((await gateway.get(copy)).body.job).toMatchObject({ args: [7], queue: 'clia' })
  expect((await cli(`jobs retry ${id}`)).code).toBe(0)
  expect((await gateway.get(id)).body.job.state).toBe('available')
  expect((await cli(`jobs delete ${other}`)).code).toBe(0)
  expect((await cli(`jobs show ${other}`)).code).toBe(3)
})

it('jobs by filter: only with --yes, after a --dry-run that changes nothing', async () => {
  for (let n = 0; n < 3; n++) await pushed('clib')
  expect((await cli('jobs cancel --queue clib')).code).toBe(2)
  expect((await cli('jobs cancel')).code).toBe(2)
  expect((await cli('jobs cancel --queue clib --dry-run')).out).toContain('3 jobs match')
  expect(documents(await cli('jobs list --queue clib --state available --json'))).toHaveLength(3)
  const done = await cli('jobs cancel --queue clib --yes')
  expect(done).toEqual({ code: 0, out: 'completed: 3 done, 0 left alone\n', err: '' })
})

it('queues, cron, workers and dead letters', async () => {
  await pushed('clic')
  expect((await cli('queues list')).out).toContain('clic')
  expect((await cli('queues pause clic')).out).toContain('paused')
  expect((await cli('queues resume clic')).code).toBe(0)
  expect((await cli('queues drain clic')).out).toContain('draining')
  expect((await cli('queues resume clic')).code).toBe(0)
  const retry = '--default-retry {"max_attempts":7}'
  expect(documents(await cli(`queues config clic ${retry} --json`))).toEqual([
    { default_retry: { max_attempts: 7 } },
  ])
  expect((await cli('queues config clic')).out).toContain('default_retry')
  expect(documents(await cli('queues config clic --unset default_retry --json'))).toEqual([{}])
  expect((await cli('queues config clic --max-size many')).code).toBe(2)
  expect((await cli('queues delete clic')).code).toBe(2)
  expect(await cli('queues delete clic --yes')).toMatchObject({
    code: 1,
    err: expect.stringContaining('has jobs'),
  })
  for (const verb of ['show', 'pause', 'resume', 'drain'])
    expect((await cli(`queues ${verb} no-such-queue`)).code).toBe(3)
  const entry = { name: 'nightly', cron: '0 3 * * *', type: 'a', args: [] }
  await gateway.request('POST', '/ojs/v1/cron', entry)
  expect((await cli('cron list')).out).toContain('nightly')
  expect(documents(await cli('cron pause nightly --json'))).toMatchObject([{ enabled: false }])
  expect((await cli('cron resume nightly')).code).toBe(0)
  const run = (await cli('cron trigger nightly')).out.trim()
  expect((await cli('cron history nightly')).out).toContain(run)
  expect((await cli('cron delete nightly')).code).toBe(0)
  await gateway.request('POST', '/ojs/v1/workers/heartbeat', { worker_id: 'w9', active_jobs: [] })
  expect((await cli('workers list')).out).toContain('w9')
  expect((await cli('workers quiet w9')).out).toContain('quiet')
  expect((await cli('dead-letters stats --queue clic')).out).toContain('by_queue')
  expect((await cli('dead-letters retry --queue clic --dry-run')).out).toContain('0 jobs match')
})

it('operations: list, show, stop; and another priority for a job', async () => {
  const id = await pushed('clie')
  expect((await cli(`jobs prioritize ${id} --priority 7`)).code).toBe(0)
  expect((await gateway.get(id)).body.job.priority).toBe(7)
  expect((await cli(`jobs prioritize ${id}`)).code).toBe(2)
  const [begun] = documents(await cli('jobs cancel --queue clie --yes --detach --json'))
  expect((await cli('operations list')).out).toContain(begun.operation)
  expect(documents(await cli(`operations show ${begun.operation} --json`))).toMatchObject([
    { id: begun.operation, action: 'cancel' },
  ])
  expect((await cli(`operations stop ${begun.operation}`)).code).toBe(0)
  expect((await cli('operations show none')).code).toBe(3)
})

it('events tail prints what happens', async () => {
  const id = await pushed('clid')
  const tail = cli(`events tail --job ${id}`)
  await gateway.cancel(id)
  expect((await tail).out).toContain(`${id}`)
})

it('events tail ends like other commands if it is never connected', async () => {
  const { out: _, ...refused } = await cli('queues list --url http://127.0.0.1:1')
  expect(refused.code).toBe(4)
  const tail = await cli('events tail --url http://127.0.0.1:1')
  expect(tail).toMatchObject({
    code: 4,
    out: '',
    err: expect.stringContaining('at http://127.0.0.1:1: '),
  })
  const message = 'This gateway stands by; the active one is at http://a.example.com.'
  const server = createServer((_request, response) => {
    const error = { code: 'backend_error', message, retryable: true }
    response.writeHead(503, { 'content-type': 'application/json', 'retry-after': '60' })
    response.end(JSON.stringify({ error }))
  })
  onTestFinished(() => void server.close())
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const { port } = server.address() as AddressInfo
  for (const more of ['', ' --queue a', ' --job x']) {
    const stands = await cli(`events tail --url http://127.0.0.1:${port}${more}`)
    expect(stands).toMatchObject({ code: 1, out: '', err: expect.stringContaining(message) })
  }
})

it('events tail that was connected goes on after a lost connection, and says so', async () => {
  const proxy = await TcpProxy.start(gateway.url)
  onTestFinished(() => proxy.stop())
  const asked = 'events tail --queue clit --types job.enqueued'.split(' ')
  const tail = spawn(process.execPath, [MAIN, ...asked, '--url', proxy.url])
  onTestFinished(() => void tail.kill('SIGKILL'))
  const heard = { out: '', err: '' }
  tail.stdout.on('data', (part) => {
    heard.out += part
  })
  tail.stderr.on('data', (part) => {
    heard.err += part
  })
  await eventually(async () => {
    if (heard.out === '') await pushed('clit')
    return heard.out !== ''
  })
  proxy.refuse(true)
  proxy.cut()
  await eventually(async () => heard.err.includes('; connecting again\n'))
  proxy.refuse(false)
  const id = await pushed('clit')
  await eventually(async () => heard.out.includes(id))
  expect(heard.err).toMatch(/^ojs-rabbitmq: .*; connecting again\nojs-rabbitmq: connected again\n$/)
})

it('mistakes are 2, no server is 4, and the key comes from a file', async () => {
  expect((await cli('jobs list --bogus')).code).toBe(2)
  expect((await cli('jobs list --queues a')).code).toBe(2)
  expect((await cli('jobs list --state nothing')).code).toBe(1)
  expect((await cli('jobs list --url http://127.0.0.1:1')).code).toBe(4)
  expect((await cli('jobs list --url nonsense')).code).toBe(2)
  const { path, remove } = temporaryDirectory()
  onTestFinished(remove)
  const file = join(path, 'key')
  writeFileSync(file, 'k\n')
  expect((await cli(`jobs list --key-file ${file}`)).code).toBe(0)
  expect((await cli('jobs list --key-file /no/such/file')).code).toBe(2)
})

it('bash completes commands and options', async () => {
  const complete = (words: string) =>
    run('bash', [
      '-c',
      `source <("${process.execPath}" "${MAIN}" completion bash); COMP_WORDS=(${words}); ` +
        `COMP_CWORD=${words.split(' ').length - 1}; _ojs_rabbitmq; echo $COMPREPLY`,
    ])
  expect((await complete('ojs-rabbitmq que')).out).toBe('queues\n')
  expect((await complete('ojs-rabbitmq jobs ca')).out).toBe('cancel\n')
  expect((await complete('ojs-rabbitmq jobs list --sta')).out).toBe('--state\n')
  expect((await cli('completion tcsh')).code).toBe(2)
})

it('the commands of docs/reference/cli.md run', async () => {
  const page = readFileSync(join(ROOT, 'docs/reference/cli.md'), 'utf8')
  const [, block = ''] = /```sh\n([\s\S]*?)```/.exec(page) ?? []
  const lines = block.trim().split('\n')
  expect(lines.length).toBeGreaterThan(2)
  for (const line of lines) {
    const words = line.replace('http://127.0.0.1:8080', gateway.url).split(' ').slice(2)
    expect(await cli(words.join(' ')), line).toMatchObject({ code: 0 })
  }
})

const piped = (line: string) =>
  spawn(process.execPath, [MAIN, ...line.split(' ')], {
    env: { PATH: process.env['PATH'], OJS_URL: gateway.url },
    stdio: ['ignore', 'pipe', 'pipe'],
  })

it('a pipe gets all of a long output, however slowly it is read, and may be closed', async () => {
  const args = ['x'.repeat(9_000)]
  const jobs = Array.from({ length: 60 }, () => ({ type: 't', args, options: { queue: 'clip' } }))
  await gateway.request('POST', '/ojs/v1/jobs/batch', { jobs })

  const slow = piped('jobs list --queue clip --limit 100 --json')
  // A pipe is full long before the command is done; the first byte says that it has begun to print.
  await once(slow.stdout, 'readable')
  await new Promise((resolve) => setTimeout(resolve, 1_000))
  const ended = once(slow, 'exit')
  const lines = (await text(slow.stdout)).trim().split('\n')
  expect(lines.map((line) => JSON.parse(line).args)).toEqual(Array(60).fill(args))
  expect((await ended)[0]).toBe(0)

  const closed = piped('jobs list --queue clip --limit 100 --json')
  const complaint = text(closed.stderr)
  await once(closed.stdout, 'readable')
  closed.stdout.destroy()
  expect((await once(closed, 'exit'))[0]).toBe(0)
  expect(await complaint).toBe('')
})

it('an output that cannot be written is a failure', async () => {
  const full = await run('bash', ['-c', `${process.execPath} ${MAIN} --version > /dev/full`])
  expect(full).toMatchObject({ code: 1, err: expect.stringContaining('ENOSPC') })
})

it.each(['jobs cancel --dry-run --args', 'jobs copy no-job --args', 'dead-letters list --args'])(
  '%s refuses a number that would become another one',
  async (line) => {
    const refused = await cli(`${line} [9007199254740993]`)
    expect(refused).toMatchObject({ code: 2, err: expect.stringContaining('cannot be kept') })
  },
)
