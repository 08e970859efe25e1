import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { DEBIAN_PYTHON, testVariables } from '../../../scripts/test/environment.mjs'

/** A message as a pika consumer got it. */
export interface PikaMessage {
  properties: Record<string, unknown>
  /** `[type letter on the wire, value]` */
  headers: Record<string, [kind: string, value: unknown]>
  routing_key: string
  exchange: string
  body: string
}

export interface PikaPublish {
  body: string | Buffer
  properties?: Record<string, unknown>
  headers?: Record<string, unknown>
}

/** Takes `count` messages from a queue and acknowledges them. Throws when they do not come. */
export async function pikaConsume(
  amqpUrl: string,
  queue: string,
  count: number,
): Promise<PikaMessage[]> {
  const lines = await python('consume.py', [amqpUrl, queue, String(count)])
  return lines
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as PikaMessage)
}

/** Publishes, mandatory and confirmed; to `ojs.exchange.direct` if not told otherwise. */
export async function pikaPublish(
  amqpUrl: string,
  routingKey: string,
  messages: readonly PikaPublish[],
  exchange = 'ojs.exchange.direct',
): Promise<void> {
  const input = messages.map((message) => ({
    ...message,
    body: Buffer.from(message.body).toString('base64'),
  }))
  const args = [amqpUrl, exchange, routingKey]
  await python('publish.py', args, { input: JSON.stringify(input) })
}

/** Runs seed 002 §15.1 as it is printed, with this id. */
export function runSeedExample(amqpUrl: string, id: string): Promise<void> {
  return runSeedScript(amqpUrl, 'seed-002-15-1.py', { JOB_ID: id })
}

/** Runs another example of seed 002 §15. Rejects when it ends with an error. */
export async function runSeedScript(
  amqpUrl: string,
  script: string,
  more: Record<string, string> = {},
): Promise<void> {
  const { hostname, port, pathname } = new URL(amqpUrl)
  const env = {
    AMQP_HOST: hostname,
    AMQP_PORT: port,
    AMQP_VHOST: decodeURIComponent(pathname.slice(1)),
    ...more,
  }
  await python(script, [], { env })
}

/** Runs a script of test/native with the Python that has Debian's pika; returns its output. */
function python(
  script: string,
  args: readonly string[],
  { input = '', env = {} }: { input?: string; env?: Record<string, string> } = {},
): Promise<string> {
  const path = fileURLToPath(new URL(`../../native/${script}`, import.meta.url))
  const command = process.env[testVariables.python] ?? DEBIAN_PYTHON
  return new Promise((resolve, reject) => {
    const child = spawn(command, [path, ...args], {
      env: { ...process.env, PYTHONDONTWRITEBYTECODE: '1', ...env },
    })
    let output = ''
    let complaints = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      complaints += text
    })
    child.on('error', reject)
    child.on('close', (code) => {
      if (code === 0) resolve(output)
      else reject(new Error(`${script}: ${complaints.trim().slice(-1000)}`))
    })
    child.stdin.on('error', () => {})
    child.stdin.end(input)
  })
}

/** A program that runs until it is ended. */
export interface PythonProgram {
  /** Ends it by SIGTERM, or SIGKILL; resolves when it is gone. */
  end(signal?: 'SIGTERM' | 'SIGKILL'): Promise<void>
  /** What it has written to stderr. */
  complaints(): string
}

/** Starts a program given as text, with the Python that has Debian's pika. */
export function startPython(program: string, env: Record<string, string>): PythonProgram {
  const command = process.env[testVariables.python] ?? DEBIAN_PYTHON
  const child = spawn(command, ['-u', '-c', program], { env: { ...process.env, ...env } })
  const gone = new Promise<void>((resolve) => child.on('close', () => resolve()))
  let complaints = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaints += text
  })
  return {
    end: (signal = 'SIGTERM') => {
      child.kill(signal)
      return gone
    },
    complaints: () => complaints,
  }
}
