import { describe, expect, onTestFinished, test } from 'vitest'
import type { PrivateNode, Vhost } from '../../support/broker/rabbit.ts'
import { eventually, type TestGateway } from '../../support/gateway/in-process.ts'
import { Stopwatch } from '../../support/time/stopwatch.ts'
import { limitedTopology } from './queue-full.ts'
import { openStage, pushBatch, pushed, type Stage } from './stage.ts'

const COUNT = 100
/** Between the schedules of the queue `served`, the first of which is due with those of the others. */
const STEP_MS = 20
const LEAD_MS = 1_500
/** The same when three queues get their schedules, and one of them is deleted, before they are due. */
const LONG_LEAD_MS = 10_000
/** Other queues may not delay the schedules of `served` by more than that. */
const HELD_UP_MS = 1_000
/**
 * One for each measurement. When the broker itself is slow for a moment, the next measurement is not late;
 * when something holds schedules up, each of them is.
 */
const DELETED = ['deleted-1', 'deleted-2', 'deleted-3']

/** In each fault, jobs of the faulty queue are due at the same time as jobs of another queue. */
export function scheduleFaults(node: PrivateNode): void {
  describe('schedules are on time while those of other queues cannot be published', () => {
    test.each(['lazy', 'never'])(
      'full, deleted and silent queues (declare: %s)',
      async (declare) => {
        const stage = await openStage(node, { env: { OJS_TOPOLOGY: limitedTopology() } })
        const { gateway, vhost } = stage
        for (const queue of ['full', 'silent', 'served', ...DELETED]) {
          await pushed(gateway, queue, 1)
        }
        const calm = await lateness(stage, 'served', 0)

        await gateway.restart({ OJS_DECLARE: declare })
        await fill(gateway)
        await silence(node, vhost, 'silent')
        const stuck = new Map<string, string[]>()
        let late = Number.POSITIVE_INFINITY
        for (const deleted of DELETED) {
          late = Math.min(late, await latenessBeside(stage, deleted, stuck))
          if (late < calm + HELD_UP_MS) break
        }
        expect(late).toBeLessThan(calm + HELD_UP_MS)

        // No job of the other queues is lost.
        await speak(node, vhost, 'silent')
        if (declare === 'never') await gateway.restart({ OJS_DECLARE: 'lazy' })
        for (const [queue, ids] of stuck) {
          const taken = new Set(await take(stage, queue, (so) => ids.every((id) => so.has(id))))
          expect(ids.filter((id) => !taken.has(id))).toEqual([])
        }
      },
    )
  })
}

/** Pushes until the queue takes no more. */
async function fill(gateway: TestGateway): Promise<void> {
  await eventually(async () => (await gateway.push('full')).status === 429)
}

/** Pushes schedules as a batch, and returns their ids. `dueAt`: by the index. */
async function scheduled(
  gateway: TestGateway,
  queue: string,
  dueAt: (index: number) => number,
): Promise<string[]> {
  const jobs = Array.from({ length: COUNT }, (_, i) => {
    const scheduled_at = new Date(dueAt(i)).toISOString()
    return { type: 'test.job', args: [], options: { queue, scheduled_at } }
  })
  const { status, body } = await pushBatch(gateway, jobs)
  expect(status, JSON.stringify(body)).toBe(201)
  return body.jobs.map(({ id }: { id: string }) => id)
}

/** The largest delay among the job messages of a hundred schedules from `firstAt` on (0: soon). */
async function lateness(stage: Stage, queue: string, firstAt: number): Promise<number> {
  const start = firstAt === 0 ? Date.now() + LEAD_MS : firstAt
  const ids = await scheduled(stage.gateway, queue, (i) => start + i * STEP_MS)
  const watch = new Stopwatch()
  let latest = Number.NEGATIVE_INFINITY
  await take(stage, queue, (taken, scheduledAt) => {
    if (scheduledAt === null) return false
    const late = Date.now() - scheduledAt
    expect(late).toBeGreaterThanOrEqual(0)
    latest = Math.max(latest, late - watch.stoppedMs)
    return ids.every((id) => taken.has(id))
  })
  watch.end()
  return latest
}

/** The lateness of `served` beside schedules that cannot be published; `stuck` gets the ids of these. */
async function latenessBeside(
  stage: Stage,
  deleted: string,
  stuck: Map<string, string[]>,
): Promise<number> {
  const dueAt = Date.now() + LONG_LEAD_MS
  for (const queue of ['full', deleted, 'silent']) {
    const ids = await scheduled(stage.gateway, queue, () => dueAt)
    stuck.set(queue, [...(stuck.get(queue) ?? []), ...ids])
  }
  await stage.admin.channel.deleteQueue(`ojs.queue.${deleted}`)
  return await lateness(stage, 'served', dueAt)
}

/** Consumes natively until `isEnough`, which is called for each message; returns the ids. */
async function take(
  { admin, vhost }: Stage,
  queue: string,
  isEnough: (taken: ReadonlySet<string>, scheduledAt: number | null) => boolean,
): Promise<string[]> {
  const taken = new Set<string>()
  const channel = await admin.model.createChannel()
  channel.on('error', () => {})
  await eventually(async () => (await vhost.queue(`ojs.queue.${queue}`)) !== undefined)
  await new Promise<void>((resolve, reject) => {
    const onMessage: Parameters<typeof channel.consume>[1] = (message) => {
      if (message === null) return reject(new Error(`${queue} was deleted`))
      channel.ack(message)
      taken.add(String(message.properties.messageId))
      const at: unknown = message.properties.headers?.['x-ojs-scheduled-at']
      try {
        if (isEnough(taken, typeof at === 'string' ? Date.parse(at) : null)) resolve()
      } catch (error) {
        reject(error)
      }
    }
    channel.consume(`ojs.queue.${queue}`, onMessage).catch(reject)
  })
  await channel.close()
  return [...taken]
}

/** Makes the queue take messages and never confirm one, like a queue without a leader. */
async function silence(node: PrivateNode, vhost: Vhost, queue: string): Promise<void> {
  await tell(node, vhost, queue, 'suspend')
  onTestFinished(() => speak(node, vhost, queue).catch(() => {}))
}

async function speak(node: PrivateNode, vhost: Vhost, queue: string): Promise<void> {
  await tell(node, vhost, queue, 'resume')
}

async function tell(
  node: PrivateNode,
  { name }: Vhost,
  queue: string,
  what: 'suspend' | 'resume',
): Promise<void> {
  const resource = `rabbit_misc:r(<<"${name}">>, queue, <<"ojs.queue.${queue}">>)`
  const lookUp = `{ok, Q} = rabbit_amqqueue:lookup(${resource})`
  const answer = await node.evaluate(`${lookUp}, sys:${what}(amqqueue:get_pid(Q))`)
  expect(answer).toBe('ok')
}
