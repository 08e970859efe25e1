import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { v7 } from 'uuid'
import { expect } from 'vitest'
import { guard, unguard } from '../../scripts/process/processes.mjs'
import { OJSClient } from '../../src/sdk/index.ts'
import { gatewayForAll } from '../operations/harness.ts'
import { type ControlClient, connectControl } from '../support/gateway/control.ts'

export const STOP_MS = 30_000

/** A vhost, a gateway on it and a client of the gateway, for all tests of a file. */
export function stageForAll() {
  const { vhost, gateway } = gatewayForAll({ OJS_QUEUES: 'email' })
  return {
    /** The environment variables of the examples, as their documentation names them. */
    env: () => ({ OJS_URL: gateway.url, AMQP_URL: vhost.url, OJS_QUEUE: 'email' }),
    client: () => new OJSClient({ url: gateway.url }),
    gateway,
    vhost,
  }
}

/** Runs an example as a process of its own, as its user does. A missing command is shown as its output. */
export class Example {
  readonly #child: ChildProcess
  readonly #lines: string[] = []
  readonly #exited: Promise<number | null>
  #hasExited = false

  constructor(command: string, args: readonly string[], env: Readonly<Record<string, string>>) {
    const child = spawn(command, args, { env: { ...process.env, ...env } })
    this.#child = child
    if (child.pid !== undefined) guard(child.pid)
    for (const output of [child.stdout, child.stderr]) {
      createInterface(output).on('line', (line) => this.#lines.push(line))
    }
    this.#exited = new Promise((resolve) => {
      child.once('error', (error) => {
        this.#lines.push(String(error))
        resolve(null)
      })
      child.once('exit', (code) => resolve(code))
    })
    void this.#exited.then(() => {
      this.#hasExited = true
      if (child.pid !== undefined) unguard(child.pid)
    })
  }

  /** Everything that the example has printed. */
  get output(): string {
    return this.#lines.join('\n')
  }

  has(line: string): boolean {
    return this.#lines.includes(line)
  }

  /** Waits until `condition` is true. On timeout it fails with the output of the example. */
  async until(condition: () => Promise<boolean> | boolean, timeoutMs = 30_000): Promise<void> {
    const deadline = performance.now() + timeoutMs
    while (!(await condition())) {
      if (this.#hasExited) throw new Error(`the example ended:\n${this.output}`)
      if (performance.now() > deadline) throw new Error(`not in time; it says:\n${this.output}`)
      await new Promise((resolve) => setTimeout(resolve, 25))
    }
  }

  /** SIGSTOP: the example neither reads nor sends heartbeats, but keeps its connection, until `thaw`. */
  freeze(): void {
    this.#child.kill('SIGSTOP')
  }

  thaw(): void {
    this.#child.kill('SIGCONT')
  }

  /** SIGKILL; resolves when the process is gone. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.#exited
  }

  /** Sends SIGTERM and returns the exit code, or null if the example had to be killed. */
  async stop(): Promise<number | null> {
    this.#child.kill('SIGTERM')
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), STOP_MS)
    const code = await this.#exited
    clearTimeout(timer)
    return code
  }
}

export type Stage = ReturnType<typeof stageForAll>

/** Enqueues a job over HTTP, waits for `state`, and returns the job as HTTP shows it then. */
export async function runJob(
  stage: Stage,
  example: Example,
  { type, args, state = 'completed' }: { type: string; args: unknown[]; state?: string },
) {
  const client = stage.client()
  const retry = { maxAttempts: 3, initialIntervalMs: 125, jitter: false }
  const { id } = await client.enqueue(type, args, { queue: 'email', retry })
  let job = await client.getJob(id)
  await example.until(async () => {
    job = await client.getJob(id)
    return job.state === state
  })
  return job
}

/** Calls `work` with an AMQP client that uses none of our code. */
export async function asClient<T>(
  stage: Stage,
  work: (client: ControlClient) => Promise<T>,
): Promise<T> {
  const client = await connectControl(stage.vhost.url)
  try {
    return await work(client)
  } finally {
    await client.close()
  }
}

/** Publishes a job as a native producer does, and returns its id. */
export async function publishJob(
  stage: Stage,
  members: object,
  headers: object = {},
): Promise<string> {
  const job = { id: v7(), type: 'email.send', args: ['a@example.com'], ...members }
  await publishText(stage, JSON.stringify(job), headers)
  return job.id
}

/** Publishes whatever text to the queue of the examples. */
export function publishText(stage: Stage, text: string, headers: object = {}): Promise<void> {
  return asClient(stage, async ({ channel }) => {
    channel.publish('ojs.exchange.direct', 'email', Buffer.from(text), { headers })
    await channel.waitForConfirms()
  })
}

/** Calls `work` with a running example, which must end with exit code 0 at SIGTERM afterwards. */
export async function withExample(
  example: Example,
  work: (example: Example) => Promise<void>,
): Promise<void> {
  try {
    await work(example)
  } catch (error) {
    await example.kill()
    throw error
  }
  expect(await example.stop(), example.output).toBe(0)
}

/** Expects a completed job, a retried one, and a discarded one without a handler: what every example does. */
export async function expectUsualJobs(stage: Stage, example: Example): Promise<void> {
  const sent = await runJob(stage, example, { type: 'email.send', args: ['a@example.com'] })
  expect(sent).toMatchObject({ attempt: 1, result: { delivered: 'a@example.com', attempt: 1 } })

  const again = await runJob(stage, example, { type: 'email.send', args: ['a@flaky.example'] })
  expect(again).toMatchObject({ attempt: 2, result: { attempt: 2 } })

  const unknown = { type: 'nobody.knows', args: [], state: 'discarded' }
  expect(await runJob(stage, example, unknown)).toMatchObject({ attempt: 1 })
}

/** A report with this job would exceed the gateway's limit; acknowledging the message would lose the job. */
export async function expectKeptDead(stage: Stage, example: Example): Promise<void> {
  const dead = () => keptDead(stage)
  const before = await dead()
  await publishJob(stage, { args: ['a@flaky.example', 'x'.repeat(8 * 1024 * 1024)] })
  await example.until(async () => (await dead()) > before)
}

/** How many messages are in the dead letter queue of the examples. */
export function keptDead(stage: Stage): Promise<number> {
  return asClient(stage, async ({ channel }) => {
    const { messageCount } = await channel.checkQueue('ojs.queue.dlx.email')
    return messageCount
  })
}
