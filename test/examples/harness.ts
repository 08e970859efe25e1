import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { v7 } from 'uuid'
import { afterAll, beforeAll, expect } from 'vitest'
import { OJSClient } from '../../src/sdk/index.ts'
import { type ControlClient, connectControl } from '../support/control.ts'
import { guard, unguard } from '../support/guard.mjs'
import { startTestGateway, type TestGateway } from '../support/in-process.ts'
import { createVhost, type Vhost } from '../support/rabbit.ts'

const STOP_MS = 30_000

/** A vhost, a gateway on it and a client of that, for all tests of a file. */
export function stageForAll() {
  let vhost: Vhost
  let gateway: TestGateway
  beforeAll(async () => {
    vhost = await createVhost()
    gateway = await startTestGateway(vhost.url, { OJS_QUEUES: 'email' })
  })
  afterAll(async () => {
    await gateway.destroy()
    await vhost.drop()
  })
  return {
    /** What every example is told; it is what its own documentation says. */
    env: () => ({ OJS_URL: gateway.url, AMQP_URL: vhost.url, OJS_QUEUE: 'email' }),
    client: () => new OJSClient({ url: gateway.url }),
    gateway: () => gateway,
    vhost: () => vhost,
  }
}

/** An example as its user runs it: a process of its own. A command that is missing is an error. */
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

  /** All that it has printed. */
  get output(): string {
    return this.#lines.join('\n')
  }

  has(line: string): boolean {
    return this.#lines.includes(line)
  }

  /** Asks until the answer is yes; fails with what the example has printed. */
  async until(condition: () => Promise<boolean> | boolean, timeoutMs = 30_000): Promise<void> {
    const deadline = performance.now() + timeoutMs
    while (!(await condition())) {
      if (this.#hasExited) throw new Error(`the example ended:\n${this.output}`)
      if (performance.now() > deadline) throw new Error(`not in time; it says:\n${this.output}`)
      await new Promise((resolve) => setTimeout(resolve, 25))
    }
  }

  /** SIGSTOP: it neither reads nor beats, and its connection is there. `thaw` goes on with it. */
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

  /** SIGTERM; the exit code, null when it had to be killed. */
  async stop(): Promise<number | null> {
    this.#child.kill('SIGTERM')
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), STOP_MS)
    const code = await this.#exited
    clearTimeout(timer)
    return code
  }
}

export type Stage = ReturnType<typeof stageForAll>

/** Posts a job over HTTP and answers it as HTTP shows it once it is in that state. */
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

/** As a client that has nothing of ours. */
export async function asClient<T>(
  stage: Stage,
  work: (client: ControlClient) => Promise<T>,
): Promise<T> {
  const client = await connectControl(stage.vhost().url)
  try {
    return await work(client)
  } finally {
    await client.close()
  }
}

/** Publishes a job as a native producer; its id. */
export function publishJob(stage: Stage, members: object, headers: object = {}): Promise<string> {
  const job = { id: v7(), type: 'email.send', args: ['a@example.com'], ...members }
  return asClient(stage, async ({ channel }) => {
    const content = Buffer.from(JSON.stringify(job))
    channel.publish('ojs.exchange.direct', 'email', content, { headers })
    await channel.waitForConfirms()
    return job.id
  })
}

/** With an example that runs, and that ends with exit code 0 when it is told to. */
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

/** What the worker of each language does: an end, a retry, and a type that it has no handler for. */
export async function expectUsualJobs(stage: Stage, example: Example): Promise<void> {
  const sent = await runJob(stage, example, { type: 'email.send', args: ['a@example.com'] })
  expect(sent).toMatchObject({ attempt: 1, result: { delivered: 'a@example.com', attempt: 1 } })

  const again = await runJob(stage, example, { type: 'email.send', args: ['a@flaky.example'] })
  expect(again).toMatchObject({ attempt: 2, result: { attempt: 2 } })

  const unknown = { type: 'nobody.knows', args: [], state: 'discarded' }
  expect(await runJob(stage, example, unknown)).toMatchObject({ attempt: 1 })
}

/** A report that shows it is larger than the gateway takes: acknowledged behind that, it would be gone. */
export async function expectKeptDead(stage: Stage, example: Example): Promise<void> {
  const dead = () =>
    asClient(stage, async ({ channel }) => {
      const { messageCount } = await channel.checkQueue('ojs.queue.dlx.email')
      return messageCount
    })
  const before = await dead()
  await publishJob(stage, { args: ['a@flaky.example', 'x'.repeat(8 * 1024 * 1024)] })
  await example.until(async () => (await dead()) > before)
}
