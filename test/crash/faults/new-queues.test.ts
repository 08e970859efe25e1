import { v7 } from 'uuid'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { withChannel } from '../../operations/harness.ts'
import { isRabbitmqFrom, startPrivateNode } from '../../support/broker/rabbit.ts'
import { eventually, startTestGateway, type TestGateway } from '../../support/gateway/in-process.ts'
import { Stopwatch } from '../../support/time/stopwatch.ts'
import { isRemembered, untilRemembered } from '../new-queues.ts'
import { BACK_LIMIT_MS, BACK_PATIENCE_MS } from '../service-back.ts'
import { fetched, metric, nack, pushBatch, pushed } from './stage.ts'

/**
 * RabbitMQ is killed in the second in which it has confirmed a new quorum queue and not written its name
 * to disk: it comes back with a queue of that name that never has a leader (docs/operate/faults.md). On a private
 * node, because such queues stay.
 */
const node = await startPrivateNode({})
afterAll(() => node.stop())

/** RabbitMQ 4.3 brings such a queue back complete. */
const before43 = test.skipIf(isRabbitmqFrom(4, 3))
const TRIES = 6
/** So many that a queue without them looks as if they had been acknowledged silently. */
const JOBS = 150
/** Jobs that are failed after the broker has come back must still be leased then, on any machine. */
const LASTING = { OJS_VISIBILITY_TIMEOUT_MS: '600000', OJS_TIMEOUT_MS: '600000' }
/** More queues than channels, so that each channel has some. */
const OTHERS = Array.from({ length: 16 }, (_, i) => `other-${i}`)

let gateways = 0

async function start(
  env: Record<string, string>,
  overrides: Parameters<typeof startTestGateway>[2] = {},
  url = node.url(),
) {
  gateways += 1
  const prefix = `g${gateways}`
  const settings = { OJS_PREFIX: prefix, ...LASTING, ...env }
  const gateway = await startTestGateway(url, settings, overrides)
  onTestFinished(() => gateway.destroy())
  await pushedToOthers(gateway)
  return { gateway, nameOf: (queue: string) => `${prefix}.ojs.queue.${queue}` }
}

async function pushedToOthers(gateway: TestGateway): Promise<number[]> {
  const answers = await Promise.all(OTHERS.map((queue) => gateway.push(queue)))
  return answers.map(({ status }) => status)
}

/**
 * Kills the broker right after `declare(i)`, which returns the name of a quorum queue that the broker has
 * just confirmed, until a kill came before the name was on disk. Returns that `i`, with the broker up again.
 */
async function leaderless(declare: (i: number) => Promise<string>): Promise<number> {
  for (let i = 0; i < TRIES; i++) {
    const name = await declare(i)
    await node.kill9()
    const isLost = !isRemembered(node, name)
    await node.restart()
    if (isLost) return i
  }
  throw new Error(`RabbitMQ has written each of ${TRIES} queues down before it was killed`)
}

function declareControl(name: string): Promise<unknown> {
  return withChannel(node.url(), (channel) => channel.assertQueue(name))
}

async function untilItHasLeader(queue: string): Promise<void> {
  const states = () => node.evaluate('ets:tab2list(ra_state)')
  await eventually(async () => (await states()).includes(`_${queue}', leader`), 60_000)
}

/** Fetches `count` jobs, and returns their ids. None come while their queue is probed and replaced. */
async function fetchedLate(gateway: TestGateway, queue: string, count: number): Promise<string[]> {
  const ids: string[] = []
  await eventually(async () => {
    const request = { queues: [queue], count: Math.min(100, count - ids.length), wait_ms: 500 }
    const { status, body } = await gateway.request('POST', '/ojs/v1/workers/fetch', request)
    if (status === 200) ids.push(...body.jobs.map(({ id }: { id: string }) => id))
    return ids.length >= count
  }, 60_000)
  return ids
}

/** Expects that the other queues are served soon. To be called when the port listens. */
async function expectOthersServed(gateway: TestGateway): Promise<void> {
  const watch = new Stopwatch()
  const missing = new Set(OTHERS)
  await eventually(async () => {
    const push = async (queue: string) => {
      if ((await gateway.push(queue)).status === 201) missing.delete(queue)
    }
    await Promise.all([...missing].map(push))
    return missing.size === 0
  }, 2 * BACK_PATIENCE_MS)
  const backMs = Math.round(watch.elapsedMs)
  watch.end()
  process.stdout.write(`  the other queues served ${backMs} ms after RabbitMQ was back\n`)
  expect(backMs).toBeLessThan(BACK_LIMIT_MS)
}

describe('broker killed right after a new quorum queue', () => {
  before43('a retry queue: publishes to it do not hold up those to job queues', async () => {
    // Without time to settle, the gateway uses the new retry queue at once.
    const { gateway, nameOf } = await start({}, { retryQueueSettleMs: 0 })
    const delayMs = (i: number) => 60_000 + 10_000 * i
    const jobs: string[][] = []
    const i = await leaderless(async (i) => {
      const retry = { initial_interval_ms: delayMs(i), jitter: false }
      await eventually(async () => (await gateway.push('q', { options: { retry } })).status === 201)
      await pushed(gateway, 'q', 1, { options: { retry } })
      const [first, second] = await fetched(gateway, 'q', 2)
      jobs.push([String(first?.id), String(second?.id)])
      expect((await nack(gateway, String(first?.id))).status).toBe(200)
      return nameOf(`retry.q.${delayMs(i)}`)
    })
    await expectOthersServed(gateway)
    expect((await nack(gateway, String(jobs[i]?.[1]))).status).toBe(200)
    await eventually(async () => (await metric(gateway, 'ojs_amqp_confirms_pending')) > 0)
    expect(new Set(await pushedToOthers(gateway))).toEqual(new Set([201]))
  })

  test('a retry queue: no retry is lost in it, and the next ones are not early', async () => {
    const { gateway, nameOf } = await start({}, { retryQueueSettleMs: 2_000 })
    const options = (i: number) => {
      return { retry: { initial_interval_ms: 15_000 + 1_000 * i, jitter: false } }
    }
    const waiting: { id: string; dueAt: number }[] = []
    const fail = async (id: string) => {
      const { body } = await nack(gateway, id)
      waiting.push({ id, dueAt: Date.parse(body.next_attempt_at) })
    }
    let active = ''
    await leaderless(async (i) => {
      await eventually(
        async () => (await gateway.push('q', { options: options(i) })).status === 201,
      )
      await pushed(gateway, 'q', 1, { options: options(i) })
      const jobs = await fetched(gateway, 'q', 2)
      active = String(jobs[1]?.id)
      await fail(String(jobs[0]?.id))
      return nameOf(`retry.q.${15_000 + 1_000 * i}`)
    })
    await expectOthersServed(gateway)
    await fail(active)
    for (const { id, dueAt } of waiting) {
      await eventually(async () => (await gateway.get(id)).body.job.state === 'available', 40_000)
      expect(Date.now()).toBeGreaterThanOrEqual(dueAt)
    }
    // All of them have a job message: none was published to a queue that keeps it.
    const again = await fetched(gateway, 'q', waiting.length)
    expect(new Set(again.map(({ id }) => id))).toEqual(new Set(waiting.map(({ id }) => id)))
    expect(await metric(gateway, 'ojs_amqp_confirms_pending')).toBe(0)
  })

  before43('a job queue: the other queues are served, whatever is pushed to it', async () => {
    // Pushes to the other queues must not run into this timeout, on any machine.
    const env = { OJS_QUEUE_TYPE: 'quorum', OJS_PUBLISH_TIMEOUT_MS: '10000' }
    // Two hosts make a cluster, where only the leader may be away, so that the gateway leaves the queue
    // alone.
    const hosts = `${node.url()},${node.url()}`
    const { gateway, nameOf } = await start(env, {}, hosts)
    await untilRemembered(node, OTHERS.map(nameOf))
    const i = await leaderless(async (i) => {
      await eventually(async () => (await gateway.push('other-0')).status === 201)
      // RabbitMQ forgets the queue declared last. The control queue is there already, so that is the job
      // queue.
      await declareControl(nameOf(`control.new-${i}`))
      await pushed(gateway, `new-${i}`, 1)
      return nameOf(`new-${i}`)
    })
    const pushToLost = () => gateway.push(`new-${i}`)
    await expectOthersServed(gateway)
    const first = Array.from({ length: 500 }, pushToLost)
    expect(new Set(await pushedToOthers(gateway))).toEqual(new Set([201]))
    const { status } = (await Promise.all(first))[0] ?? {}
    expect(status).toBe(503)

    // The restarted gateway does not know how new that queue was: the first push shows it.
    await gateway.restart()
    const second = Array.from({ length: 500 }, pushToLost)
    await Promise.all([...second, pushedToOthers(gateway)])
    expect((await pushToLost()).status).toBe(503)
    const third = Array.from({ length: 500 }, pushToLost)
    expect(new Set(await pushedToOthers(gateway))).toEqual(new Set([201]))
    await Promise.all(third)
  })

  before43.each([
    { profile: 'quorum', lost: '', how: 'goes on' },
    { profile: 'quorum', lost: '', how: 'is restarted' },
    { profile: 'classic', lost: 'dlx.', how: 'goes on' },
  ])(
    'a queue that never answers is replaced, with its jobs: $profile, the gateway $how',
    async ({ profile, lost, how }) => {
      // A check of the queues is to fall into the time of the probe.
      const { gateway, nameOf } = await start({ OJS_QUEUE_TYPE: profile }, { watchMs: 1_000 })
      const accepted: string[][] = []
      const leased: string[] = []
      const i = await leaderless(async (i) => {
        await eventually(async () => (await gateway.push('other-0')).status === 201)
        // RabbitMQ forgets the queue declared last. The control queue is there already, so it is not that
        // one.
        if (profile === 'quorum') await declareControl(nameOf(`control.new-${i}`))
        const ids = Array.from({ length: JOBS }, () => v7())
        const jobs = ids.map((id) => ({
          id,
          type: 'test',
          args: [],
          options: { queue: `new-${i}` },
        }))
        expect((await pushBatch(gateway, jobs)).status).toBe(201)
        accepted.push(ids)
        // Consumers exist when RabbitMQ is killed, and come back with it.
        const [first] = await fetched(gateway, `new-${i}`, 1)
        leased.push(String(first?.id))
        return nameOf(`${lost}new-${i}`)
      })
      if (how === 'is restarted') await gateway.restart()
      await expectOthersServed(gateway)
      // No publish waits in the dead queue when it is deleted, which would cost the connection.
      const cuts = () => metric(gateway, 'ojs_amqp_reconnections_total')
      const before = await cuts()
      const jobs = await fetchedLate(gateway, `new-${i}`, JOBS - 1)
      expect(new Set([...jobs, leased[i]])).toEqual(new Set(accepted[i]))
      for (const id of accepted[i] ?? []) expect((await gateway.ack(id)).status).toBe(200)
      expect((await gateway.push(`new-${i}`)).status).toBe(201)
      await untilItHasLeader(nameOf(`${lost}new-${i}`))
      expect(await cuts()).toBe(before)
    },
  )
})
