import { v7 } from 'uuid'
import { describe, expect, test } from 'vitest'
import { type PikaPublish, pikaConsume, pikaPublish } from '../support/broker/pika.ts'
import { createVhost } from '../support/broker/rabbit.ts'
import { jobOf, jobsOf } from '../support/gateway/client.ts'
import { Gateway, gatewayProcessForAll } from '../support/gateway/gateway.ts'

/** Seed 002 §9.1.2 with a plain pika client. */

const DAY = 86_400_000
/** The delay of schedules that a test has to see before they are due. */
const WAIT_MS = 8_000

const { vhost, gateway } = gatewayProcessForAll()

function schedule(queue: string, ...messages: PikaPublish[]): Promise<void> {
  return pikaPublish(vhost.url, queue, messages, 'ojs.exchange.delayed')
}

function message(headers: Record<string, unknown>, members: object = {}): PikaPublish {
  const id = v7()
  const job = { specversion: '1.0', id, type: 'a.b', args: [1], ...members }
  return { body: JSON.stringify(job), headers }
}

function idOf({ body }: PikaPublish): string {
  const { id } = JSON.parse(body.toString()) as { id: string }
  return id
}

/**
 * Waits for the publish and returns the job as it was in this state. Polls during the publish too: the job
 * is in the state for `WAIT_MS` only, and the publishing program takes time to end.
 */
async function seenAs(
  state: string,
  id: string,
  publishing: Promise<void>,
): Promise<Record<string, unknown>> {
  let job: Record<string, unknown> = {}
  const stateNow = async () => {
    const answer = await gateway.client.get(id)
    if (answer.status === 200) job = jobOf(answer)
    return job['state']
  }
  await Promise.all([publishing, expect.poll(stateNow, { timeout: 30_000 }).toBe(state)])
  return job
}

/** The job, once the gateway has read its message. */
async function adopted(id: string): Promise<Record<string, unknown>> {
  await expect.poll(async () => (await gateway.client.get(id)).status).toBe(200)
  return jobOf(await gateway.client.get(id))
}

describe('a schedule that was published natively', () => {
  test('is a scheduled job until it is due, and then a job message with the headers of its message', async () => {
    const publish = {
      ...message({ 'x-delay': WAIT_MS, 'x-vendor': { list: [1, 'two'] }, 'x-ojs-max-attempts': 7 }),
      properties: { correlation_id: 'c-1', priority: 4, content_type: 'application/json' },
    }
    const before = Date.now()
    const id = idOf(publish)
    const job = await seenAs('scheduled', id, schedule('held', publish))
    expect(job).toMatchObject({ state: 'scheduled', queue: 'held', attempt: 0, max_attempts: 7 })
    const dueAt = Date.parse(String(job['scheduled_at']))
    expect(dueAt).toBeGreaterThanOrEqual(before + WAIT_MS)
    expect(dueAt).toBeLessThanOrEqual(Date.now() + WAIT_MS)

    const [jobMessage] = await pikaConsume(vhost.url, 'ojs.queue.held', 1)
    expect(Date.now()).toBeGreaterThanOrEqual(dueAt)
    expect(jobMessage?.properties).toMatchObject({
      message_id: id,
      correlation_id: 'c-1',
      priority: 4,
    })
    expect(jobMessage?.headers).toMatchObject({
      'x-ojs-attempt': ['I', 1],
      'x-ojs-max-attempts': ['I', 7],
      'x-ojs-scheduled-at': ['S', job['scheduled_at']],
    })
    expect(jobMessage?.headers).toHaveProperty('x-vendor')
    expect(jobMessage?.headers).not.toHaveProperty('x-delay')
  })

  const at = (ms: number) => new Date(ms).toISOString()
  const due = Date.now() + DAY
  test.each<[what: string, publish: PikaPublish, from: number, to: number]>([
    ['an int x-delay', message({ 'x-delay': DAY }), due, due + 600_000],
    ['a long x-delay', message({ 'x-delay': 100 * DAY }), due + 99 * DAY, due + 99 * DAY + 600_000],
    ['a string x-delay', message({ 'x-delay': String(DAY) }), due, due + 600_000],
    ['x-ojs-scheduled-at', message({ 'x-ojs-scheduled-at': at(due) }), due, due],
    [
      'x-ojs-scheduled-at with an offset',
      message({ 'x-ojs-scheduled-at': at(due + 2 * 3_600_000).replace('Z', '+02:00') }),
      due,
      due,
    ],
    [
      'x-delay when x-ojs-scheduled-at is present too',
      message({ 'x-delay': DAY, 'x-ojs-scheduled-at': 'x' }),
      due,
      due + 600_000,
    ],
    ['scheduled_at in the body', message({}, { scheduled_at: at(due) }), due, due],
    [
      'x-delay when the body has delay_until too',
      message({ 'x-delay': DAY }, { options: { delay_until: at(due + DAY) } }),
      due,
      due + 600_000,
    ],
  ])('is due by %s', async (_, publish, from, to) => {
    await schedule('forms', publish)
    const job = await adopted(idOf(publish))
    expect(job).toMatchObject({ state: 'scheduled' })
    const dueAt = Date.parse(String(job['scheduled_at']))
    expect(dueAt).toBeGreaterThanOrEqual(from)
    expect(dueAt).toBeLessThanOrEqual(to)
  })

  test('is held by the ledger too if it comes by the job queue itself, and blocks no job behind it', async () => {
    await gateway.client.push({ type: 'a.b', args: [], options: { queue: 'direct' } })
    const later = [
      message({}, { scheduled_at: at(due) }),
      message({}, { options: { delay_until: at(Date.now() + 50_000) } }),
      message({ 'x-ojs-scheduled-at': at(due) }),
    ]
    // The first attempt was allowed to run; and a time that is over holds up nothing.
    const now = [
      message({ 'x-ojs-attempt': 2 }, { scheduled_at: at(due) }),
      message({}, { scheduled_at: at(Date.now() - DAY) }),
    ]
    const soonAt = Date.now() + WAIT_MS
    const soon = message({}, { scheduled_at: at(soonAt) })
    await pikaPublish(vhost.url, 'direct', [...later, soon, ...now])
    const ids: string[] = []
    while (ids.length < 4) {
      const answer = await gateway.client.fetch({ queues: ['direct'], count: 9, wait_ms: 15_000 })
      ids.push(...jobsOf(answer).map((job) => String(job['id'])))
    }
    expect(ids.slice(1, 3)).toEqual(now.map(idOf))
    expect(ids[3]).toBe(idOf(soon))
    expect(Date.now()).toBeGreaterThanOrEqual(soonAt)
    for (const one of later)
      expect(await adopted(idOf(one))).toMatchObject({ state: 'scheduled', attempt: 0 })
    expect(jobOf(await gateway.client.get(idOf(later[0] ?? soon)))['scheduled_at']).toBe(at(due))
  })

  test('is available at once when its time has passed or it names none', async () => {
    const past = [
      message({ 'x-delay': 0 }),
      message({ 'x-delay': -5 }),
      message({ 'x-ojs-scheduled-at': at(Date.now() - DAY) }),
      message({}),
      // A native message is always deliverable, so `pending` is ignored.
      message({ 'x-delay': 0 }, { pending: true }),
    ]
    await schedule('past', ...past)
    const ids = new Set<string>()
    while (ids.size < past.length) {
      const answer = await gateway.client.fetch({ queues: ['past'], count: 9, wait_ms: 15_000 })
      for (const { id } of jobsOf(answer)) ids.add(id)
    }
    expect(ids).toEqual(new Set(past.map(idOf)))
  })

  test('is one job, even if it is published repeatedly', async () => {
    const publish = message({ 'x-delay': DAY })
    await schedule('again', publish)
    const first = await adopted(idOf(publish))
    const over = message({ 'x-delay': 0 })
    await schedule('again', { ...publish, headers: { 'x-delay': 0 } }, over, over)
    const [job] = jobsOf(await gateway.client.fetch({ queues: ['again'], wait_ms: 15_000 }))
    expect(job?.id).toBe(idOf(over))
    expect((await gateway.client.ack({ job_id: idOf(over) })).status).toBe(200)
    await schedule('again', over)
    await settled()
    expect(jobOf(await gateway.client.get(idOf(over)))['state']).toBe('completed')
    expect(jobOf(await gateway.client.get(idOf(publish)))).toEqual(first)
  })

  test('can be cancelled, even before it is published', async () => {
    const known = message({ 'x-delay': 600 })
    const unknown = message({ 'x-delay': 600 })
    await schedule('cancelled', known)
    await adopted(idOf(known))
    expect((await gateway.client.cancel(idOf(known))).status).toBe(200)
    const heard = await acknowledged('ojs.queue.control')
    const word = { body: JSON.stringify({ job_id: idOf(unknown) }) }
    const properties = { type: 'ojs.control.cancel' }
    await pikaPublish(vhost.url, 'ojs.queue.control.cancelled', [{ ...word, properties }])
    await expect.poll(() => acknowledged('ojs.queue.control')).toBe(heard + 1)
    const later = message({ 'x-delay': 900 })
    await schedule('cancelled', unknown, later)
    const answer = await gateway.client.fetch({ queues: ['cancelled'], wait_ms: 15_000 })
    expect(jobsOf(answer).map(({ id }) => id)).toEqual([idOf(later)])
    expect((await gateway.client.get(idOf(unknown))).status).toBe(404)
  })

  test('waits in RabbitMQ while the gateway is stopped', async () => {
    await gateway.stop()
    const publish = message({ 'x-delay': 200 })
    await schedule('down', publish)
    await gateway.restart()
    const answer = await gateway.client.fetch({ queues: ['down'], wait_ms: 15_000 })
    expect(jobsOf(answer)).toMatchObject([{ id: idOf(publish), attempt: 1 }])
  })
})

describe('a retry by the delayed exchange (seed 002 §8.4)', () => {
  const retried = (publish: PikaPublish, attempt: number, delayMs: number): PikaPublish => ({
    ...publish,
    headers: {
      'x-delay': delayMs,
      'x-ojs-attempt': attempt,
      'x-ojs-error-code': 'timeout',
      'x-ojs-error-message': 'too slow',
    },
  })

  test.each([
    ['of a job that the gateway has pushed', true],
    ['of a job that it has never seen', false],
  ])('%s fails the previous attempt and is handed out when it is due', async (_, isPushed) => {
    const queue = isPushed ? 'retried' : 'retried.unknown'
    const publish = message({}, { queue })
    const id = idOf(publish)
    if (isPushed) {
      expect((await gateway.client.push(JSON.parse(publish.body.toString()))).status).toBe(201)
      await pikaConsume(vhost.url, `ojs.queue.${queue}`, 1)
    }
    const retry = retried(publish, 2, WAIT_MS)
    expect(await seenAs('retryable', id, schedule(queue, retry, retry))).toMatchObject({
      attempt: 1,
      error: { code: 'timeout', message: 'too slow' },
    })
    const answer = await gateway.client.fetch({ queues: [queue], wait_ms: 30_000 })
    expect(jobsOf(answer)).toMatchObject([{ id, attempt: 2 }])
    await schedule(queue, retry)
    await settled()
    expect(jobOf(await gateway.client.get(id))).toMatchObject({ state: 'active', attempt: 2 })
  })
})

/** Messages that are not valid schedules, with their routing keys. */
const NO_SCHEDULES: [queue: string, publish: PikaPublish][] = [
  ['hostile', { body: '', headers: { 'x-delay': 1 } }],
  ['hostile', { body: 'hello', headers: { 'x-delay': 1 } }],
  ['hostile', { body: Buffer.from([0x7b, 0xff, 0xfe, 0x7d]) }],
  ['hostile', message({ 'x-delay': 'soon' })],
  ['hostile', message({ 'x-delay': true })],
  ['hostile', message({ 'x-delay': [1] })],
  ['hostile', message({ 'x-delay': { ms: 1 } })],
  ['hostile', message({ 'x-delay': 20 * 365 * DAY })],
  ['hostile', message({ 'x-ojs-scheduled-at': 'tomorrow' })],
  ['hostile', message({ 'x-ojs-scheduled-at': '2099-01-01T00:00:00' })],
  ['hostile', message({ 'x-ojs-scheduled-at': 5 })],
  ['hostile', message({}, { scheduled_at: 'tomorrow' })],
  ['hostile', message({ 'x-delay': 1 }, { queue: 'other' })],
  ['hostile', message({ 'x-delay': 1 }, { id: 'job-1' })],
  ['hostile', message({ 'x-delay': 1 }, { type: undefined })],
  ['hostile', message({ 'x-delay': 1, 'x-ojs-attempt': 3 }, { args: {} })],
  ['Not.A.Queue', message({ 'x-delay': 1 })],
  ['dlx.email', message({ 'x-delay': 1 })],
  ['a/b#*', message({ 'x-delay': 1 })],
  ['', message({ 'x-delay': 1 })],
  ['x'.repeat(200), message({ 'x-delay': 1 })],
]

test('messages that are no schedules are dead-lettered and counted, and do not harm the gateway', async () => {
  const queues = [...new Set(NO_SCHEDULES.map(([queue]) => queue))]
  const before = await malformed()
  for (const queue of queues) {
    await schedule(queue, ...NO_SCHEDULES.filter(([of]) => of === queue).map(([, one]) => one))
  }
  const good = message({ 'x-delay': 100 })
  await schedule('hostile', good)
  const answer = await gateway.client.fetch({ queues: ['hostile'], wait_ms: 15_000 })
  expect(jobsOf(answer).map(({ id }) => id)).toEqual([idOf(good)])

  const dead = await pikaConsume(vhost.url, 'ojs.system.due.dlx', NO_SCHEDULES.length)
  const published = NO_SCHEDULES.map(([, { body }]) => body.toString())
  expect(new Set(dead.map(({ body }) => body))).toEqual(new Set(published))
  expect((await malformed()) - before).toBe(NO_SCHEDULES.length)
  await expect.poll(() => gateway.log.lines().map(({ msg }) => msg)).toContain('malformed message')
  expect((await gateway.client.health()).status).toBe(200)
  // Each queue takes the start of a Python program.
}, 180_000)

test('a queue beyond OJS_MAX_QUEUES is not declared for a schedule', async () => {
  const other = await createVhost()
  const bounded = await Gateway.start({ amqpUrl: other.url, env: { OJS_MAX_QUEUES: '2' } })
  try {
    const first = message({ 'x-delay': DAY })
    const second = message({ 'x-delay': DAY })
    const to = (queue: string, one: PikaPublish) =>
      pikaPublish(other.url, queue, [one], 'ojs.exchange.delayed')
    await to('one', first)
    await expect.poll(async () => (await bounded.client.get(idOf(first))).status).toBe(200)
    await to('two', second)
    const [dead] = await pikaConsume(other.url, 'ojs.system.due.dlx', 1)
    expect(dead?.body).toBe(second.body)
    expect(await other.queue('ojs.queue.two')).toBeUndefined()
    expect((await bounded.client.get(idOf(second))).status).toBe(404)
  } finally {
    await bounded.dispose()
    await other.drop()
  }
})

/** Waits until earlier messages have been handled, since writes commit in their order of arrival. */
async function settled(): Promise<void> {
  const last = message({ 'x-delay': DAY })
  await schedule('last', last)
  await adopted(idOf(last))
}

function acknowledged(queue: string): Promise<number> {
  return metric(`ojs_amqp_messages_acked_total{queue="${queue}"}`)
}

function malformed(): Promise<number> {
  return metric('ojs_token_malformed_total{queue="ojs.system.due"}')
}

/** The value of the series, or 0 when it does not exist yet. */
async function metric(series: string): Promise<number> {
  const { text } = await gateway.client.send('GET', '/metrics')
  const line = text.split('\n').find((one) => one.startsWith(series))
  return Number(line?.slice(series.length) ?? 0)
}
