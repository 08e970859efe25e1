import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { healthStatus } from '../../../scripts/process/health-status.mjs'
import { newApiKey, type Role } from '../../../src/http/access/api-keys.ts'
import { vhostForAll } from '../../support/broker/rabbit.ts'
import { Authority, type Certificate } from '../../support/gateway/certificates.ts'
import { Gateway } from '../../support/gateway/gateway.ts'
import { eventually } from '../../support/gateway/in-process.ts'

const SESSION = fileURLToPath(new URL('../access-session.mjs', import.meta.url))
const MAIN = resolve(import.meta.dirname, '../../../dist/main.js')
const run = promisify(execFile)

const keyOf = (role: Role) => newApiKey(`the-${role}`, role)
const [producer, worker, operator] = [keyOf('producer'), keyOf('worker'), keyOf('operator')]

describe('a gateway with keys and TLS', () => {
  let authority: Authority
  let own: Certificate
  const vhost = vhostForAll()
  let gateway: Gateway

  beforeAll(async () => {
    authority = new Authority()
    own = authority.issue('gateway')
    gateway = await Gateway.start({
      amqpUrl: vhost.url,
      env: {
        OJS_API_KEYS: [producer, worker, operator].map(({ entry }) => entry).join(),
        OJS_TLS_CERT: own.certPath,
        OJS_TLS_KEY: own.keyPath,
        OJS_RATE_LIMIT: '1000/60s',
        OJS_LOG_LEVEL: 'debug',
      },
    })
    await eventually(async () => (await healthStatus(gateway.url, {})) === 200)
  })
  afterAll(async () => {
    await gateway.dispose()
    authority.remove()
  })

  /** Runs a child process that trusts the test's CA and inherits only PATH. Returns its output. */
  const child = async (args: string[], env: Record<string, string> = {}) => {
    const { stdout } = await run(process.execPath, args, {
      env: { PATH: process.env['PATH'], NODE_EXTRA_CA_CERTS: authority.ca.certPath, ...env },
    })
    return stdout
  }

  it('lets a job pass from producer to worker, and refuses each key what its role may not do', async () => {
    const out = await child([SESSION], {
      OJS_URL: gateway.url,
      PRODUCER: producer.key,
      WORKER: worker.key,
      OPERATOR: operator.key,
    })
    expect(JSON.parse(out)).toEqual({
      name: 'ada',
      state: 'completed',
      nobody: '401 x_unauthenticated OJSAuthenticationError',
      stranger: '401 x_unauthenticated OJSAuthenticationError',
      workerPushes: '403 x_forbidden OJSPermissionError',
      producerCancels: '403 x_forbidden OJSPermissionError',
      operatorCancels: 'allowed',
      health: 'ok',
      extensions: expect.arrayContaining(['bearer_api_keys']),
    })
  })

  it('accepts the command `recover` with an OJS_API_KEY of an operator only', async () => {
    const args = [MAIN, 'recover', '--queue', 'nowhere', '--url', gateway.url]
    const failing = (env: Record<string, string>) =>
      child(args, env).then(
        () => 'ended well',
        ({ stderr }: { stderr: string }) => stderr,
      )
    const keys = [{}, { OJS_API_KEY: worker.key }, { OJS_API_KEY: operator.key }]
    expect(await Promise.all(keys.map(failing))).toEqual([
      expect.stringContaining('x_unauthenticated'),
      expect.stringContaining('x_forbidden'),
      expect.stringContaining('not_found'),
    ])
  })

  it('accepts the command `recover` with a client certificate if OJS_TLS_CA is set', async () => {
    const files = { OJS_TLS_CERT: own.certPath, OJS_TLS_KEY: own.keyPath }
    const tls = { ...files, OJS_TLS_CA: authority.ca.certPath }
    const strict = await Gateway.start({
      amqpUrl: vhost.url,
      env: { ...tls, OJS_PREFIX: 'strict' },
    })
    const recover = (env: Record<string, string>) =>
      child([MAIN, 'recover', '--queue', 'nowhere', '--url', strict.url], env).catch(
        ({ stderr }: { stderr: string }) => stderr,
      )
    try {
      await eventually(async () => (await healthStatus(strict.url, tls)) === 200)
      const unreadable = { ...tls, OJS_TLS_KEY: '/nowhere' }
      expect(await healthStatus(strict.url, unreadable)).toBeUndefined()
      expect(await recover(tls)).toContain('not_found')
      expect(await recover(files)).toContain('No gateway answers')
      // The command must be told of the CA that signed the gateway's certificate.
      expect(await recover({ ...tls, NODE_EXTRA_CA_CERTS: '' })).toMatch(
        /certificate.*NODE_EXTRA_CA_CERTS/,
      )
    } finally {
      await strict.dispose()
    }
  })

  it('logs the names of keys, but neither keys nor hashes', () => {
    const log = readFileSync(join(gateway.dir, 'gateway.log'), 'utf8')
    expect(log).toContain('"key":"the-producer"')
    expect(log).toContain('"request refused"')
    for (const { key, entry } of [producer, worker, operator]) {
      expect(log).not.toContain(key)
      expect(log).not.toContain(entry.split(':')[2])
    }
    expect(log).not.toContain('ojs_stranger')
  })

  it('ends with exit code 1 at the start if a TLS file cannot be read', async () => {
    const env = { OJS_TLS_CERT: own.certPath, OJS_TLS_KEY: '/nowhere.pem', OJS_LOG_LEVEL: 'silent' }
    const failed = await child([MAIN, 'serve'], env).catch((error: { stderr: string }) => error)
    expect(failed).toMatchObject({ code: 1 })
    expect(failed).toMatchObject({ stderr: expect.stringContaining('OJS_TLS_KEY cannot be read') })
  })
})
