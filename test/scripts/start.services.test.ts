import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, mkdtempSync, readFileSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { needsLongQueuePolicy } from '../../scripts/broker/long-queues.mjs'
import { findRabbitmqSbin } from '../../scripts/broker/rabbitmq-package.mjs'
import { removeFolder } from '../../scripts/process/remove-folder.mjs'
import { vhostForAll } from '../support/broker/rabbit.ts'
import { eventually } from '../support/gateway/in-process.ts'

const REPOSITORY = resolve(import.meta.dirname, '../..')
/** What `npm start` reads besides its scripts. With these, there is nothing to install or build. */
const LINKED = ['node_modules', 'dist', 'src', 'topology', 'package.json', 'package-lock.json']

const vhost = vhostForAll()
/** A copy of the repository, so that the lock and the data are not the developer's. */
let root: string
let runs: Run[] = []
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'ojs-start-'))
  cpSync(join(REPOSITORY, 'scripts'), join(root, 'scripts'), { recursive: true })
  for (const name of LINKED) symlinkSync(join(REPOSITORY, name), join(root, name))
})
afterAll(async () => {
  for (const { child, exited } of runs) {
    child.kill('SIGKILL')
    await exited
  }
  runs = []
  await removeFolder(root)
})

interface Run {
  child: ChildProcess
  /** The exit code. */
  exited: Promise<number | null>
  /** Its stderr so far; the gateway's log goes to stdout. */
  said: string
}

/** Runs `npm start` without any setting of this process's environment. */
function start(env: Record<string, string> = {}, args: readonly string[] = []): Run {
  const child = spawn(process.execPath, [join(root, 'scripts', 'start.mjs'), ...args], {
    env: { PATH: process.env['PATH'], OJS_AMQP_URL: vhost.url, OJS_PORT: '0', ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const exited = once(child, 'close').then(([code]) => code as number | null)
  const run: Run = { child, exited, said: '' }
  child.stderr?.on('data', (chunk) => {
    run.said += chunk
  })
  runs.push(run)
  return run
}

/** Waits until the run is ready. Returns the gateway's URL. */
async function ready(run: Run): Promise<string> {
  const url = () => /is ready.* HTTP +(\S+)\/ojs\/v1\n/s.exec(run.said)?.[1]
  await eventually(() => url() !== undefined || run.child.exitCode !== null)
  const found = url()
  if (found === undefined) throw new Error(`npm start ended: ${run.said}`)
  return found
}

const isHealthy = (url: string) =>
  fetch(`${url}/ojs/v1/health`).then(
    ({ status }) => status === 200,
    () => false,
  )
const lock = () => join(root, 'data', 'start.lock')

/** The pid of the gateway, which the run has started beside its guardian. */
function gatewayOf({ child }: Run): number {
  const children = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8')
  const [pid] = children
    .trim()
    .split(' ')
    .filter((each) => readFileSync(`/proc/${each}/cmdline`, 'utf8').includes('main.js'))
  return Number(pid)
}

test.each(['--help', '--port=9000', 'serve'])(
  'npm start -- %s fails and says that npm start takes no arguments',
  async (arg) => {
    const run = start({}, [arg])
    await eventually(() => run.child.exitCode !== null || run.said.includes('is ready'))
    expect(run.child.exitCode).toBe(1)
    expect(run.said).toContain('npm start takes no arguments')
    expect(existsSync(lock())).toBe(false)
  },
)

test('npm start runs a gateway with the broker of OJS_AMQP_URL, once per folder, until SIGTERM', async () => {
  const run = start()
  const url = await ready(run)
  expect(await isHealthy(url)).toBe(true)
  expect(run.said).toContain('from OJS_AMQP_URL')
  expect(run.said).not.toContain(':test@')
  const second = start()
  expect(await second.exited).toBe(1)
  expect(second.said).toBe(`npm start is already running here (pid ${run.child.pid}).\n`)
  expect(existsSync(lock())).toBe(true)
  run.child.kill('SIGTERM')
  expect(await run.exited).toBe(0)
  expect(run.said).toMatch(/\nStopping …\n/)
  expect(await isHealthy(url)).toBe(false)
  expect(existsSync(lock())).toBe(false)
})

test('npm start ends with the exit code of a gateway that ends by itself', async () => {
  const run = start()
  await ready(run)
  process.kill(gatewayOf(run), 'SIGKILL')
  expect(await run.exited).toBe(137)
  expect(run.said).toContain('The gateway ended by itself (exit code 137).')
  expect(existsSync(lock())).toBe(false)
})

test('npm start reports a port that it cannot have in one line, and starts nothing', async () => {
  for (const port of ['80x', new URL(vhost.url).port]) {
    const run = start({ OJS_PORT: port })
    expect(await run.exited).toBe(1)
    expect(run.said).toMatch(new RegExp(`^OJS_PORT=${port} is .*\\.\n$`))
    expect(existsSync(lock())).toBe(false)
  }
})

test('npm start sets the policy for long queues at the first start of its own node only', async () => {
  const sbin = findRabbitmqSbin() ?? ''
  const { startOwnNode } = await import(join(root, 'scripts', 'broker', 'own-node.mjs'))
  const ctl = async (...args: string[]) => {
    const command = join(root, 'data', 'rabbitmq', 'rabbitmqctl')
    return (await promisify(execFile)(command, ['-q', '-p', '/ojs', ...args])).stdout
  }
  const first = await startOwnNode(sbin)
  onTestFinished(first.stop)
  expect((await ctl('list_policies')).includes('ojs-lazy')).toBe(needsLongQueuePolicy(sbin))
  if (needsLongQueuePolicy(sbin)) await ctl('clear_policy', 'ojs-lazy')
  await first.stop()
  const second = await startOwnNode(sbin)
  onTestFinished(second.stop)
  expect(await ctl('list_policies')).not.toContain('ojs-lazy')
})

test('npm start with OJS_LEDGER=postgres: runs a PostgreSQL of its own, which has the jobs at the next start', async () => {
  const first = start({ OJS_LEDGER: 'postgres:' })
  const url = await ready(first)
  expect(first.said).toContain('PostgreSQL: a private server on 127.0.0.1:')
  const password = readFileSync(join(root, 'data', 'postgres', 'password'), 'utf8')
  expect(first.said).not.toContain(password)
  const headers = { 'Content-Type': 'application/json' }
  const body = '{"id":"019539a4-b68c-7def-8000-1a2b3c4d5e6f","type":"a","args":[]}'
  const pushed = await fetch(`${url}/ojs/v1/jobs`, { method: 'POST', headers, body })
  expect(pushed.status).toBe(201)
  const job = JSON.parse(body) as { id: string }
  first.child.kill('SIGTERM')
  expect(await first.exited).toBe(0)
  const second = start({ OJS_LEDGER: 'postgres:' })
  const again = await ready(second)
  expect((await fetch(`${again}/ojs/v1/jobs/${job.id}`)).status).toBe(200)
  second.child.kill('SIGTERM')
  expect(await second.exited).toBe(0)
})
