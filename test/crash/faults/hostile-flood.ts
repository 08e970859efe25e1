import { expect, onTestFinished, test } from 'vitest'
import { type Admin, connectAdmin } from '../../broker/harness.ts'
import { pikaPublish } from '../../support/broker/pika.ts'
import type { PrivateNode } from '../../support/broker/rabbit.ts'
import { jobOf, jobsOf } from '../../support/gateway/client.ts'
import { Gateway } from '../../support/gateway/gateway.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { Random, SEED } from '../random.ts'
import { type Hostile, hugeHeaders, noJob, staleMessage } from './hostile.ts'
import { depthOf, sumOf } from './stage.ts'

const JOBS = 100
const PER_JOB = 60
const HUGE = 50
const MB = 1_000_000
/** By default Node 24 lets its young generation grow by some 100 MB more than Node 20. */
const SMALL_NURSERY = { NODE_OPTIONS: '--max-semi-space-size=16' }
/** For what takes 9 s on a quiet machine. */
const PATIENCE_MS = 120_000

export function hostileFloodFaults(node: PrivateNode): void {
  test(`6,000 messages that are no jobs cost no real job and no resources (OJS_CRASH_SEED=${SEED})`, async () => {
    const vhost = await node.createVhost()
    onTestFinished(() => vhost.drop())
    const admin = await connectAdmin(vhost.url)
    onTestFinished(() => admin.close())
    // A separate process, because its open files and its memory are measured.
    const gateway = await Gateway.start({ amqpUrl: vhost.url, env: SMALL_NURSERY })
    onTestFinished(() => gateway.dispose())
    await gateway.untilHealthy()
    const flood = new Flood(gateway, admin)
    await Promise.all([flood.publish(1, 0), flood.work(1)])
    const before = await flood.usage()
    await Promise.all([flood.publish(JOBS, PER_JOB), flood.work(JOBS + 1)])
    await pikaPublish(vhost.url, 'q', Array.from({ length: HUGE }, hugeHeaders))
    flood.noJobs += HUGE
    await Promise.all([flood.publish(1, 0), flood.work(JOBS + 2)])
    await flood.drain()

    // No real job was lost or overtaken.
    expect(flood.finished).toEqual(flood.pushed)
    await eventually(async () => (await flood.depth('ojs.queue.dlx.q')) === flood.noJobs, 30_000)
    await eventually(async () => (await flood.depth('ojs.queue.control.q')) === 0, 30_000)
    await eventually(async () => (await flood.malformed()) === flood.controls, 30_000)
    await eventually(async () => (await flood.depth('ojs.system.dead-letters')) === 0, 30_000)
    expect(gateway.isRunning).toBe(true)
    const health = await gateway.client.health()
    expect(health.body).toMatchObject({ status: 'ok', warnings: [] })

    await eventually(async () => {
      const { unacked, channels, files } = await flood.usage()
      return unacked === 0 && channels <= before.channels + 1 && files <= before.files + 2
    })
    const after = await flood.usage()
    expect(after.memory).toBeLessThan(before.memory + 200 * MB)
    expect(await flood.states()).toEqual({ completed: flood.pushed.length })
  })
}

/** Publishes real jobs between messages that are none, and works on those that it gets. */
class Flood {
  readonly pushed: string[] = []
  readonly finished: string[] = []
  noJobs = 0
  controls = 0
  readonly #random = new Random(SEED)
  readonly #gateway: Gateway
  readonly #admin: Admin

  constructor(gateway: Gateway, admin: Admin) {
    this.#gateway = gateway
    this.#admin = admin
  }

  /** Pushes real jobs, and publishes `perJob` messages that are none after each of them. */
  async publish(jobs: number, perJob: number): Promise<void> {
    for (let i = 0; i < jobs; i++) {
      const job = { type: 'a.b', args: [i], options: { queue: 'q' } }
      this.pushed.push(jobOf(await this.#gateway.client.push(job)).id)
      for (let n = 0; n < perJob; n++) this.#publishOne()
      await this.#admin.channel.waitForConfirms()
    }
  }

  /** A single worker, so that the order of the jobs can be checked. */
  work(jobs: number): Promise<void> {
    return eventually(async () => {
      await this.#work()
      return this.finished.length >= jobs
    }, PATIENCE_MS)
  }

  /** The messages behind the last job are consumed only while a worker fetches. */
  drain(): Promise<void> {
    return eventually(async () => {
      await this.#work()
      return (await this.depth('ojs.queue.q')) === 0 && (await this.usage()).unacked === 0
    }, PATIENCE_MS)
  }

  depth(queue: string): Promise<number> {
    return depthOf(this.#admin, queue)
  }

  /** Number of control messages that the gateway could not read. */
  async malformed(): Promise<number> {
    const { text } = await this.#gateway.client.send('GET', '/metrics')
    return sumOf(text, 'ojs_control_malformed_total')
  }

  async usage() {
    const { text } = await this.#gateway.client.send('GET', '/metrics')
    return {
      memory: sumOf(text, 'process_resident_memory_bytes'),
      files: sumOf(text, 'process_open_fds'),
      channels: sumOf(text, 'ojs_amqp_channels_active'),
      unacked: sumOf(text, 'ojs_amqp_messages_unacked'),
    }
  }

  /** The number of jobs in each state that has any. */
  async states(): Promise<Record<string, number>> {
    const { text } = await this.#gateway.client.send('GET', '/metrics')
    const states = ['available', 'active', 'retryable', 'scheduled', 'completed', 'discarded']
    const counts = states.map(
      (state) => [state, sumOf(text, 'ojs_queue_depth', { state })] as const,
    )
    return Object.fromEntries(counts.filter(([, count]) => count > 0))
  }

  #publishOne(): void {
    const random = this.#random
    const over = this.finished[random.integer(0, this.finished.length - 1)]
    const n = this.noJobs + this.controls + 1
    if (over !== undefined && random.next() < 0.1) {
      this.#publish('q', staleMessage(random, over))
    } else if (random.next() < 0.05) {
      this.controls += 1
      const { body, properties } = noJob(random, n)
      // They are counted at the end, so none may expire.
      const { expiration: _, ...lasting } = properties
      this.#publish('ojs.queue.control.q', { body, properties: lasting })
    } else {
      this.noJobs += 1
      this.#publish('q', noJob(random, n))
    }
  }

  #publish(key: string, { body, properties }: Hostile): void {
    const options = { persistent: true, ...properties }
    this.#admin.channel.publish('ojs.exchange.direct', key, body, options)
  }

  async #work(): Promise<void> {
    const answer = await this.#gateway.client.fetch({ queues: ['q'], count: 100, wait_ms: 500 })
    expect(answer.status).toBe(200)
    for (const { id } of jobsOf(answer)) {
      this.finished.push(id)
      expect((await this.#gateway.client.ack({ job_id: id })).status).toBe(200)
    }
  }
}
