import { v7 } from 'uuid'
import { afterEach, describe, expect, test } from 'vitest'
import type { Handler } from '../../../src/sdk/index.ts'
import {
  NativeProducer,
  NativeWorker,
  type NativeWorkerOptions,
} from '../../../src/worker/index.ts'
import { adminForAll } from '../../broker/fixtures.ts'
import { gatewayForAll } from '../../operations/harness.ts'
import { inOrder } from '../../support/broker/order.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { inTime } from '../../support/time/in-time.ts'
import { gate, ready } from '../harness.ts'

const SOON = { initial_interval: 'PT0.1S', backoff_coefficient: 1, jitter: false }

function failingOnce(attempt: number): number {
  if (attempt === 1) throw new Error('not yet')
  return attempt
}

describe.each(['classic', 'quorum'] as const)(
  'read over HTTP, a job of a native worker (%s)',
  (queueType) => {
    const { vhost, gateway } = gatewayForAll({ OJS_QUEUE_TYPE: queueType })
    const admin = adminForAll(vhost)
    const workers: NativeWorker[] = []
    let queues = 0
    let queue = ''

    afterEach(async () => {
      await Promise.all(workers.splice(0).map((worker) => worker.stop()))
    })

    async function start(
      handlers: Record<string, Handler>,
      given: Partial<NativeWorkerOptions> = {},
    ): Promise<NativeWorker> {
      queues += given.queues ? 0 : 1
      queue = given.queues?.[0] ?? `native-${queues}`
      const worker = new NativeWorker({
        url: vhost.url,
        queues: [queue],
        queueType,
        gracePeriod: 0,
        retryQueueSettleMs: 0,
        answerTimeoutMs: 10_000,
        logger: false,
        handleSignals: false,
        ...given,
      })
      for (const [type, handler] of Object.entries(handlers)) worker.register(type, handler)
      workers.push(worker)
      await worker.start()
      return worker
    }

    async function pushed(options: object = {}): Promise<string> {
      const answer = await gateway.push(queue, { options })
      expect(answer.status).toBe(201)
      return answer.body.job.id
    }

    const jobOf = async (id: string) => (await gateway.get(id)).body.job
    const untilState = (id: string, state: string) =>
      eventually(async () => (await jobOf(id)).state === state)

    test('is active, then completed with its result', async () => {
      const end = gate()
      const { workerId } = await start({
        'test.job': async ({ args }) => {
          await end.opened
          return { args }
        },
      })
      const id = await pushed()
      await untilState(id, 'active')
      expect(await jobOf(id)).toMatchObject({ worker_id: workerId, attempt: 1 })
      end.open()
      await untilState(id, 'completed')
      expect(await jobOf(id)).toMatchObject({ attempt: 1, result: { args: [1] } })
    })

    test('has all its attempts and their errors', async () => {
      await start({
        'test.job': ({ attempt }) => {
          if (attempt < 3) throw new TypeError(`attempt ${attempt}`)
          return 'at last'
        },
      })
      const id = await pushed({ retry: { ...SOON, max_attempts: 3 } })
      await untilState(id, 'completed')
      const job = await jobOf(id)
      expect(job).toMatchObject({ attempt: 3, result: 'at last' })
      expect(job.errors).toMatchObject([
        { attempt: 1, type: 'TypeError', message: 'attempt 1' },
        { attempt: 2, type: 'TypeError', message: 'attempt 2' },
      ])
      await eventually(async () => (await ready(admin, `ojs.queue.${queue}`)) === 0)
    })

    test('is known, and retried by the gateway, although a native producer enqueued it', async () => {
      const options = { retryQueueSettleMs: 60_000 }
      await start({ 'test.job': ({ attempt }) => failingOnce(attempt) }, options)
      const producer = new NativeProducer({ url: vhost.url, queueType, logger: false })
      const retry = { initialInterval: 'PT0.1S', backoffCoefficient: 1, jitter: false }
      const { id } = await producer.enqueue('test.job', [7], { queue, retry, tags: ['t'] })
      await producer.close()
      await eventually(async () => (await gateway.get(id)).status === 200)
      await untilState(id, 'completed')
      expect(await jobOf(id)).toMatchObject({ args: [7], tags: ['t'], attempt: 2, result: 2 })
      expect((await jobOf(id)).errors).toMatchObject([{ attempt: 1, message: 'not yet' }])
    })

    test('is known after a failure with args of 2.5 MB, and shows a result of 1 MiB', async () => {
      const result = 'r'.repeat(1_048_574)
      await start({
        'test.job': ({ attempt }) => (failingOnce(attempt) ? result : undefined),
      })
      const id = v7()
      const job = { id, type: 'test.job', args: ['x'.repeat(2_500_000)], retry: SOON }
      const content = Buffer.from(JSON.stringify(job))
      admin.channel.publish('ojs.exchange.direct', queue, content, { messageId: id })
      await admin.channel.waitForConfirms()
      await eventually(async () => (await gateway.get(id)).status === 200)
      await untilState(id, 'completed')
      const known = await jobOf(id)
      expect([known.attempt, known.args, known.result]).toEqual([2, job.args, result])
      expect(known.errors).toMatchObject([{ attempt: 1, message: 'not yet' }])
    })

    test('keeps its headers and properties when its retry is left to the gateway', async () => {
      const options = { retryQueueSettleMs: 60_000 }
      await start({ 'test.job': ({ attempt }) => failingOnce(attempt) }, options)
      const { queue: tap } = await admin.channel.assertQueue('', { exclusive: true })
      await admin.channel.bindQueue(tap, 'ojs.exchange.direct', queue)
      const id = v7()
      const headers = { 'x-ojs-tags': 'a', 'x-tenant': 'acme', 'x-blob': Buffer.of(1) }
      const properties = { messageId: id, priority: 4, correlationId: 'c-1', replyTo: 'replies' }
      const content = Buffer.from(JSON.stringify({ id, type: 'test.job', args: [7], retry: SOON }))
      admin.channel.publish('ojs.exchange.direct', queue, content, { ...properties, headers })
      await admin.channel.waitForConfirms()
      await eventually(async () => (await gateway.get(id)).status === 200)
      await untilState(id, 'completed')
      expect(await jobOf(id)).toMatchObject({ attempt: 2, tags: ['a'], priority: 4 })
      await admin.channel.get(tap, { noAck: true })
      expect(await admin.channel.get(tap, { noAck: true })).toMatchObject({
        properties: { ...properties, headers: { ...headers, 'x-ojs-attempt': 2 } },
      })
    })

    test.each<[string, object]>([
      ['by its body', {}],
      ['by its body and header', { 'x-ojs-enqueued-at': '2026-02-12T10:30:00.000Z' }],
    ])(
      'is retried although it looks %s as if the gateway had enqueued it',
      async (_how, headers) => {
        const options = { retryQueueSettleMs: 60_000 }
        await start({ 'test.job': ({ attempt }) => failingOnce(attempt) }, options)
        const id = v7()
        const numbers = { timeout_ms: 30_000, max_attempts: 3, retry: SOON }
        const body = { specversion: '1.0', id, type: 'test.job', queue, args: [7], ...numbers }
        const content = Buffer.from(JSON.stringify(body))
        admin.channel.publish('ojs.exchange.direct', queue, content, { messageId: id, headers })
        await admin.channel.waitForConfirms()
        await eventually(async () => (await gateway.get(id)).status === 200)
        await untilState(id, 'completed')
        expect(await jobOf(id)).toMatchObject({ args: [7], attempt: 2, result: 2 })
      },
    )

    test('is discarded without a run if it has expired, whether enqueued natively or over HTTP', async () => {
      const ran: string[] = []
      queue = `late-${queueType}`
      const expiresAt = new Date(Date.now() - 1_000)
      const producer = new NativeProducer({ url: vhost.url, queueType, logger: false })
      const native = await producer.enqueue('test.job', [7], { queue, expiresAt })
      await producer.close()
      const http = await pushed({ expires_at: expiresAt.toISOString() })
      await start({ 'test.job': ({ job }) => void ran.push(job.id) }, { queues: [queue] })
      const inTime = await pushed({ expires_at: '+PT1H' })
      await untilState(inTime, 'completed')
      for (const id of [native.id, http]) {
        await eventually(async () => (await gateway.get(id)).status === 200)
        await untilState(id, 'discarded')
        expect(await jobOf(id)).toMatchObject({ attempt: 0 })
        const { body } = await gateway.request('GET', `/ojs/v1/events?queues=${queue}`)
        const story = body.events.filter(({ subject }: { subject: string }) => subject === id)
        expect(story.map(({ type }: { type: string }) => type)).toContain('job.expired')
      }
      expect(ran).toEqual([inTime])
      await eventually(async () => (await ready(admin, `ojs.queue.${queue}`)) === 0)
    })

    test('is a dead letter in RabbitMQ and over HTTP after its last attempt', async () => {
      await start({
        'test.job': () => {
          throw new Error('never')
        },
      })
      const id = await pushed({ retry: { ...SOON, max_attempts: 2 } })
      await untilState(id, 'discarded')
      expect((await jobOf(id)).errors).toHaveLength(2)
      await eventually(async () => (await ready(admin, `ojs.queue.dlx.${queue}`)) === 1)
      const listed = await gateway.request('GET', `/ojs/v1/dead-letter?queue=${queue}`)
      expect(JSON.stringify(listed.body)).toContain(id)
    })

    test('is retryable with the delay of its policy if that is too long for a retry queue', async () => {
      let runs = 0
      await start({
        'test.job': () => {
          runs += 1
          throw new Error('later')
        },
      })
      const id = await pushed({
        retry: {
          max_attempts: 2,
          initial_interval: 'PT400S',
          max_interval: 'PT500S',
          jitter: false,
        },
      })
      await untilState(id, 'retryable')
      const { next_attempt_at: at, retry_delay_ms: delay } = await jobOf(id)
      expect(delay).toBe(400_000)
      expect(Date.parse(at)).toBeGreaterThan(Date.now() + 300_000)
      expect(runs).toBe(1)
    })

    test('stays cancelled when it is cancelled while it runs, and its signal fires', async () => {
      const begun = gate()
      let reason: unknown
      await start({
        'test.job': async ({ signal }) => {
          begun.open()
          await new Promise((resolve) => signal.addEventListener('abort', resolve))
          reason = signal.reason
          return 'too late'
        },
      })
      const id = await pushed()
      await begun.opened
      await untilState(id, 'active')
      expect((await gateway.cancel(id)).status).toBe(200)
      await eventually(() => reason !== undefined)
      expect(reason).toMatchObject({ reason: 'cancelled' })
      await eventually(() => workers[0]?.activeJobs === 0)
      expect(await jobOf(id)).toMatchObject({ state: 'cancelled', attempt: 1 })
      expect((await jobOf(id)).result).toBeUndefined()
    })

    test('never runs if it is cancelled while it waits', async () => {
      const end = gate()
      const ran: string[] = []
      await start(
        {
          'test.job': async ({ job }) => {
            ran.push(job.id)
            await end.opened
          },
        },
        { concurrency: 1 },
      )
      const first = await pushed()
      await eventually(() => ran.length === 1)
      const [cancelled, { status }] = await inTime(pushed, gateway.cancel)
      expect(status).toBe(200)
      const last = await pushed()
      end.open()
      await untilState(last, 'completed')
      expect(ran.filter((id) => [first, cancelled, last].includes(id))).toEqual([first, last])
    })

    test('never runs if it was cancelled before the worker started', async () => {
      await (await start({})).stop()
      const cancelled = await pushed()
      const other = await pushed()
      await gateway.cancel(cancelled)
      const ran: string[] = []
      await start({ 'test.job': ({ job }) => ran.push(job.id) }, { queues: [queue] })
      await untilState(other, 'completed')
      expect(ran).toEqual([other])
      expect((await jobOf(cancelled)).state).toBe('cancelled')
    })

    test('stays active beyond its visibility timeout by heartbeats', async () => {
      const end = gate()
      await start({ 'test.job': () => end.opened }, { heartbeatInterval: 100 })
      const id = await pushed({ visibility_timeout_ms: 8_000 })
      await untilState(id, 'active')
      await new Promise((resolve) => setTimeout(resolve, 9_000))
      expect(await jobOf(id)).toMatchObject({ state: 'active', attempt: 1 })
      end.open()
      await untilState(id, 'completed')
      expect((await jobOf(id)).errors).toBeUndefined()
    })

    test('runs on another worker, still as attempt 1, when its worker gave it back', async () => {
      const begun = gate()
      const worker = await start({
        'test.job': () => {
          begun.open()
          return new Promise(() => {})
        },
      })
      const id = await pushed({ visibility_timeout_ms: 600_000, retry: { max_attempts: 3 } })
      await begun.opened
      await worker.stop()
      await start({ 'test.job': ({ attempt }) => attempt }, { queues: [queue] })
      await untilState(id, 'completed')
      expect(await jobOf(id)).toMatchObject({ attempt: 1, result: 1 })
    })

    test('is completed, with its attempts, after it ran while the gateway was stopped', async () => {
      const ran: string[] = []
      const went = gate()
      let toWaitFor = Promise.resolve()
      await start(
        {
          'test.job': async ({ job, attempt }) => {
            ran.push(job.id)
            await toWaitFor
            if (job.args[0] === 'twice' && attempt === 1) throw new Error('once more')
            return attempt
          },
        },
        { concurrency: 3 },
      )
      const pushTwice = async (): Promise<string> =>
        (await gateway.push(queue, { args: ['twice'], options: { retry: SOON } })).body.job.id
      // Without a gateway, a retry needs a declared retry queue; so this waits for a first retry.
      await inTime(
        () => Promise.resolve(),
        async () => {
          const id = await pushTwice()
          await eventually(() => ran.filter((other) => other === id).length === 2)
        },
      )
      ran.length = 0
      toWaitFor = went.opened
      const one = await pushed()
      const twice = await pushTwice()
      const waiting = await Promise.all(Array.from({ length: 20 }, () => pushed()))
      await untilState(one, 'active')
      await gateway.stop()
      went.open()
      await eventually(() => ran.length === 23)
      await eventually(() => workers[0]?.activeJobs === 0)
      await gateway.restart()
      for (const id of [one, ...waiting]) await untilState(id, 'completed')
      await untilState(twice, 'completed')
      expect(await jobOf(twice)).toMatchObject({ attempt: 2, result: 2, errors: [{ attempt: 1 }] })
      expect(inOrder(ran)).toEqual(inOrder([one, twice, twice, ...waiting]))
    })

    test('completes although its queue is deleted', async () => {
      const ran: string[] = []
      await start({ 'test.job': ({ job }) => ran.push(job.id) })
      const paused = workers.splice(0)
      await Promise.all(paused.map((worker) => worker.stop()))
      const waiting = await Promise.all(Array.from({ length: 3 }, () => pushed()))
      const end = gate()
      await start(
        {
          'test.job': ({ job }) => {
            ran.push(job.id)
            return end.opened
          },
        },
        { queues: [queue], concurrency: 1 },
      )
      await eventually(() => ran.length === 1)
      await admin.channel.deleteQueue(`ojs.queue.${queue}`)
      end.open()
      for (const id of waiting) await untilState(id, 'completed')
    })
  },
)
