import { v7 } from 'uuid'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { freshQueue, gatewayForAll, startJob, untilState } from '../operations/harness.ts'
import { type ControlClient, connectControl } from '../support/gateway/control.ts'
import { eventually, type TestGateway } from '../support/gateway/in-process.ts'

const YEARS_MS = 10 * 365 * 86_400_000
const INT32 = 2 ** 31 - 1
const ERROR = { code: 'e', message: 'm' }

/** What the counter says, summed over types. */
async function refusals(gateway: TestGateway, reason: string): Promise<number> {
  const text = String((await gateway.request('GET', '/metrics')).body)
  const lines = text.split('\n').filter((line) => line.startsWith('ojs_control_refused_total{'))
  return lines
    .filter((line) => line.includes(`reason="${reason}"`))
    .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}

const EVENTS: object[] = [
  { event: 'started' },
  { event: 'completed', result: 'stolen' },
  { event: 'failed', error: ERROR },
  { event: 'failed', error: ERROR, outcome: { decision: 'discard' } },
  { event: 'completed', attempt: INT32 },
  { event: 'expired' },
  { event: 'released', token_attempt: 1 },
]

describe('a control message', () => {
  const { vhost, gateway } = gatewayForAll()
  let client: ControlClient
  beforeAll(async () => {
    client = await connectControl(vhost.url)
  })
  afterAll(() => client.close())

  const push = async (queue: string, over: object = {}): Promise<string> =>
    (await gateway.push(queue, over)).body.job.id
  const seen = async (id: string) => (await gateway.get(id)).body
  const report = (queue: string, workerId: string, ...events: object[]) =>
    client.say(queue, 'ojs.control.report', { worker_id: workerId, events })

  it('does nothing to jobs of another queue than its own, and is counted', async () => {
    const [victim, evil] = [freshQueue(), freshQueue()]
    const leased = (await startJob(gateway, victim)).id
    const waiting = await push(victim)
    const own = await push(evil)
    const ids = [leased, waiting]
    const before = await Promise.all(ids.map(seen))
    const counted = await refusals(gateway, 'other_queue')
    const about = EVENTS.flatMap((event) => ids.map((id) => ({ job_id: id, attempt: 1, ...event })))
    await report(evil, 'w', ...about)
    for (const id of ids) await client.say(evil, 'ojs.control.cancel', { job_id: id })
    const beat = { worker_id: 'w', job_ids: ids, visibility_timeout_ms: YEARS_MS }
    await client.say(evil, 'ojs.control.heartbeat', beat)
    const claim = { job_id: waiting, attempt: 1, worker_id: 'w' }
    expect(await client.ask(evil, 'ojs.control.claim', claim)).toEqual({
      decision: 'discard',
      attempt: 1,
    })
    expect(await client.ask(evil, 'ojs.control.info', { job_id: waiting })).toMatchObject({
      error: { code: 'not_found' },
    })
    expect(await client.ask(evil, 'ojs.control.sync', { queues: [victim] })).toMatchObject({
      error: { code: 'invalid_request', details: { field: 'queues' } },
    })
    // Handled after all the others.
    await report(evil, 'w', { job_id: own, attempt: 1, event: 'completed' })
    await untilState(gateway, own, 'completed')
    expect(await Promise.all(ids.map(seen))).toEqual(before)
    // Two starts count with the ends of their attempts. Beside them two cancels, and two ids of the heartbeat.
    expect(await refusals(gateway, 'other_queue')).toBe(counted + about.length - 2 + 4)
  })

  it('makes no job of another queue, and cancels none that is not there yet', async () => {
    const [victim, evil] = [freshQueue(), freshQueue()]
    await client.ask('default', 'ojs.control.sync', { queues: [victim, evil] })
    const [shown, later] = [v7(), v7()]
    const job = { id: shown, type: 'test.job', args: [], queue: victim }
    await report(evil, 'w', { job_id: shown, attempt: 1, event: 'failed', error: ERROR, job })
    await client.say(evil, 'ojs.control.cancel', { job_id: later })
    // It is the job of nobody's: kept where it came from.
    await eventually(async () => {
      const { messageCount } = await client.channel.checkQueue(`ojs.queue.dlx.${evil}`)
      return messageCount === 1
    })
    expect((await gateway.get(shown)).status).toBe(404)
    const body = { id: later, type: 'test.job', args: [], queue: victim }
    client.channel.publish('ojs.exchange.direct', victim, Buffer.from(JSON.stringify(body)), {
      messageId: later,
    })
    const fetched = await gateway.fetch([victim], { wait_ms: 15_000 })
    expect(fetched).toMatchObject([{ id: later }])
  })

  it('does not end the lease that another worker has over HTTP', async () => {
    const queue = freshQueue()
    const { id } = await startJob(gateway, queue)
    const own = await push(queue)
    const before = await seen(id)
    const counted = await refusals(gateway, 'leased_elsewhere')
    const ends = EVENTS.slice(1, 5).map((event) => ({ job_id: id, attempt: 1, ...event }))
    await report(queue, 'thief', ...ends)
    await client.say(queue, 'ojs.control.heartbeat', { worker_id: 'thief', job_ids: [id] })
    await report(queue, 'w', { job_id: own, attempt: 1, event: 'completed' })
    await untilState(gateway, own, 'completed')
    expect(await seen(id)).toEqual(before)
    expect(await refusals(gateway, 'leased_elsewhere')).toBe(counted + ends.length)
    const acked = await gateway.request('POST', '/ojs/v1/workers/ack', { job_id: id })
    expect(acked.status).toBe(200)
  })

  it('is bounded in attempts, lease and delay by the job and the settings', async () => {
    const queue = freshQueue()
    const id = await push(queue, { options: { retry: { max_attempts: 4 } } })
    await report(queue, 'w', { job_id: id, attempt: INT32, event: 'started' })
    const beat = { worker_id: 'w', job_ids: [id], visibility_timeout_ms: YEARS_MS }
    await client.say(queue, 'ojs.control.heartbeat', beat)
    const active = await untilState(gateway, id, 'active')
    expect(active).toMatchObject({ attempt: 4, max_attempts: 4 })
    const retried = await push(queue)
    const outcome = { decision: 'retry', delay_ms: YEARS_MS, rung_ms: null }
    const failed = { job_id: retried, attempt: 1, event: 'failed', error: ERROR, outcome }
    await report(queue, 'w', failed)
    const { next_attempt_at: dueAt } = await untilState(gateway, retried, 'retryable')
    expect(Date.parse(dueAt)).toBeLessThan(Date.now() + 2 * 86_400_000)
  })
})

describe('a control message with OJS_CONTROL_SCOPE=any', () => {
  const { vhost, gateway } = gatewayForAll({ OJS_CONTROL_SCOPE: 'any' })

  it('may be about a job of any queue', async () => {
    const client = await connectControl(vhost.url)
    try {
      const queue = freshQueue()
      const push = async (): Promise<string> => (await gateway.push(queue)).body.job.id
      const [one, two, three] = [await push(), await push(), v7()]
      const { body } = await gateway.get(one)
      expect(await client.ask('default', 'ojs.control.info', { job_id: one })).toEqual(body)
      const events = [{ job_id: one, attempt: 1, event: 'completed' }]
      await client.say('default', 'ojs.control.report', { worker_id: 'w', events })
      await client.say('default', 'ojs.control.cancel', { job_id: two })
      await client.say('default', 'ojs.control.cancel', { job_id: three })
      await untilState(gateway, one, 'completed')
      await untilState(gateway, two, 'cancelled')
      const claim = { job_id: three, attempt: 1, worker_id: 'w' }
      expect(await client.ask(queue, 'ojs.control.claim', claim)).toMatchObject({
        decision: 'drop',
      })
    } finally {
      await client.close()
    }
  })
})
