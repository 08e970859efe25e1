/** Celery on RabbitMQ: a producer and a worker in Python, started by the load process, so that their CPU is its own. */
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { guard, unguard } from '../../../scripts/process/processes.mjs'
import { ARGS } from '../../load/requests.mjs'

const PYTHON = '/usr/bin/python3'
const APP = fileURLToPath(new URL('../celery_app.py', import.meta.url))
/** Its pool is of processes: more than twice the cores only costs memory. */
const PROCESSES = '4'

/** @param {{ queue: string, amqp: string }} given */
export async function open({ queue, amqp }) {
  const dir = mkdtempSync(join(tmpdir(), 'ojs-rabbitmq-celery-'))
  const socket = join(dir, 'reports')
  let onReport = () => {}
  const reports = createServer((from) =>
    from.on('data', ({ length }) => {
      for (let i = 0; i < length; i++) onReport()
    }),
  )
  await new Promise((resolve) => reports.listen(socket, () => resolve(undefined)))
  const env = {
    ...process.env,
    CELERY_BROKER: amqp,
    CELERY_QUEUE: queue,
    CELERY_REPORTS: socket,
    CELERY_ARGS: JSON.stringify(ARGS),
  }
  const producer = startPython([APP], env)
  /** @type {((value: unknown) => void)[]} */
  const waiting = []
  const started = new Promise((resolve) => waiting.push(resolve))
  producer.child.stdout.on('data', ({ length }) => {
    for (const done of waiting.splice(0, length)) done(undefined)
  })
  await started
  // An answer does not say whose it is: all calls of a row are alike.
  const send = (/** @type {number} */ count) =>
    new Promise((resolve) => {
      waiting.push(resolve)
      producer.child.stdin.write(`${count}\n`)
    })
  return {
    enqueue: () => send(1),
    enqueueMany: (/** @type {number} */ count) => send(count),
    work: async (/** @type {number} */ _concurrency, /** @type {() => void} */ onJob) => {
      onReport = onJob
      const worker = startPython([...WORKER, '-c', PROCESSES], env)
      await untilReady(worker)
      return () => worker.stop('SIGTERM')
    },
    close: async () => {
      await producer.stop('SIGKILL')
      reports.close()
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

const WORKER = [
  ...['-m', 'celery', '-A', 'celery_app', '--workdir', join(APP, '..'), 'worker'],
  ...['--without-gossip', '--without-mingle', '--without-heartbeat', '-l', 'INFO'],
]

/**
 * @param {string[]} args
 * @param {NodeJS.ProcessEnv} env
 */
function startPython(args, env) {
  const child = spawn(PYTHON, args, {
    env: { ...env, PYTHONDONTWRITEBYTECODE: '1' },
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  })
  const pid = Number(child.pid)
  guard(pid)
  const exited = new Promise((resolve) => child.once('exit', resolve)).then(() => unguard(pid))
  /** @param {NodeJS.Signals} signal */
  const stop = (signal) => {
    child.kill(signal)
    return exited
  }
  return { child, exited, stop }
}

/** @param {{ child: import('node:child_process').ChildProcessWithoutNullStreams, exited: Promise<unknown> }} given */
async function untilReady({ child, exited }) {
  let text = ''
  await new Promise((resolve, reject) => {
    child.stderr.on('data', (chunk) => {
      text = (text + chunk).slice(-4_000)
      if (text.includes(' ready.')) resolve(undefined)
    })
    exited.then(() => reject(new Error(`Celery's worker ended: ${text}`)))
  })
}
