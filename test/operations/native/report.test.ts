import { beforeEach, expect, it, vi } from 'vitest'
import type { Broker, DeadLetter, PublishOutcome } from '../../../src/broker/broker.ts'
import { shownMessage } from '../../../src/broker/messages/incoming-message.ts'
import { OjsError, unavailable } from '../../../src/errors.ts'
import type { ReportEvent } from '../../../src/job/request.ts'
import { diedInBroker } from '../../../src/operations/dead-letters/died-in-broker.ts'
import { report } from '../../../src/operations/native/report.ts'
import { uuid7 } from '../../../src/uuid.ts'
import { fetched, NOW, pushed, rowOf } from '../../ledger/harness.ts'
import { ledgerOfTest, refuseChangesOf } from '../../ledger/sqlite/harness.ts'
import { newGraph } from '../../support/gateway/workflows.ts'
import { onToldBroker, type ToldStage, toldDelivery } from '../job-messages/told-broker.ts'

const AT = { attempt: 1, at: new Date(NOW).toISOString() }
const FAILED = { ...AT, event: 'failed', error: { code: 'boom', message: 'it went off' } } as const

const harness = ledgerOfTest()
let stage: ToldStage
beforeEach(() => {
  stage = onToldBroker(harness, { publish: async () => 'confirmed' })
})

it.each<[string, Partial<ReportEvent>, string]>([
  ['success', { event: 'completed' }, 'job.completed'],
  ['failure', FAILED, 'job.retrying'],
  ['final failure', { ...FAILED, outcome: { decision: 'discard' } }, 'job.discarded'],
])(
  'a report of a start and its %s emits job.started with the state at the start',
  async (_end, said, last) => {
    const { id } = await pushed(harness.ledger)
    const events = [{ event: 'started' as const }, said].map((one) => ({
      ...AT,
      ...one,
      job_id: id,
    }))
    await report(
      stage.deps,
      { worker_id: 'w', events: events as ReportEvent[] },
      { requestId: 'req_1' },
    )
    const started = stage.events.find(({ type }) => type === 'job.started')
    expect(started).toMatchObject({
      job: { id, state: 'active', attempt: 1, workerId: 'w', enqueuedAt: NOW, startedAt: NOW },
    })
    expect(stage.events.map(({ type }) => type)).toContain(last)
  },
)

it.each<[string, Parameters<typeof toldDelivery>[1], boolean]>([
  ['is acknowledged by the gateway', {}, false],
  ['is still out when the acknowledgement is lost', { settles: 'lost' }, true],
  ['is back when the channel of its delivery is gone', { isLive: false, settles: 'lost' }, false],
])(
  'a native completion of a job that its worker has leased over HTTP: its job message %s',
  async (_, given, messageOut) => {
    const { id } = await fetched(harness.ledger)
    stage.deps.jobMessages.held.set(id, toldDelivery([], given))
    stage.deps.jobMessages.unsure.add(id)
    const done = { ...AT, event: 'completed', job_id: id } as const
    const http = (await rowOf(harness.ledger, id)).workerId
    await report(stage.deps, { worker_id: http ?? '', events: [done] }, { requestId: 'req_1' })
    await harness.ledger.recordQueue('behind all lazy writes', NOW)
    expect(await rowOf(harness.ledger, id)).toMatchObject({ state: 'completed', messageOut })
    expect(stage.deps.jobMessages.unsure.has(id)).toBe(false)
  },
)

it('a report still applies its other events when the ledger refuses one job', async () => {
  const jobs = [await pushed(harness.ledger), await pushed(harness.ledger)]
  const unknown = uuid7()
  const [poisoned, known] = jobs.map(({ id }) => id) as [string, string]
  refuseChangesOf(harness.db, poisoned)
  const job = { id: unknown, type: 'a.b', args: [] }
  const events = [poisoned, known, unknown].map(
    (id) =>
      ({ ...AT, event: 'completed', job_id: id, ...(id === unknown && { job }) }) as ReportEvent,
  )
  stage.deps.broker.shown = shownMessage
  const reported = await report(stage.deps, { worker_id: 'w', events }, { requestId: 'req_1' })
  expect(reported).toMatchObject({ applied: 2, ignored: 1 })
  const states = await Promise.all(
    [poisoned, known, unknown].map(async (id) => (await harness.ledger.read.find(id))?.state),
  )
  expect(states).toEqual(['available', 'completed', 'completed'])
})

it('a reported failure dead-letters an unusable job only if it is unknown and was not retried', async () => {
  const publishUnusable = vi.fn(async () => 'confirmed' as const)
  Object.assign(stage.deps.broker, { shown: shownMessage, publishUnusable })
  const { id } = await pushed(harness.ledger)
  const said = (job_id: string, more: Partial<ReportEvent> = {}) => {
    // A job without a type, which cannot be adopted.
    const job = { id: job_id, type: '', args: [] }
    const events = [{ ...FAILED, job_id, job, ...more } as ReportEvent]
    return report(stage.deps, { worker_id: 'w', events }, { requestId: 'req_1' })
  }
  expect(await said(id)).toMatchObject({ applied: 1, ignored: 0 })
  expect(await said(id)).toMatchObject({ applied: 0, ignored: 1 })
  await said(uuid7(), { outcome: { decision: 'retry', delay_ms: 1_000, rung_ms: 1_000 } })
  expect(publishUnusable).not.toHaveBeenCalled()
  await said(uuid7())
  expect(publishUnusable).toHaveBeenCalledOnce()
})

it('a report that is repeated after the ledger failed emits each completion once', async () => {
  const { ledger } = harness
  const jobs = [await pushed(ledger), await pushed(ledger), await pushed(ledger)]
  const [first, poisoned, last] = jobs.map(({ id }) => id) as [string, string, string]
  refuseChangesOf(harness.db, poisoned)
  const { applyReports } = ledger
  let isFull = true
  ledger.applyReports = async (events, terms) => {
    const isLast = events.length === 1 && events[0]?.id === last
    if (isFull && isLast) throw unavailable('The disk is full.', 'ledger')
    return await applyReports.call(ledger, events, terms)
  }
  const events = jobs.map(({ id }) => ({ ...AT, event: 'completed', job_id: id }) as ReportEvent)
  const said = () => report(stage.deps, { worker_id: 'w', events }, { requestId: 'req_1' })
  await expect(said()).rejects.toMatchObject({ status: 503 })
  isFull = false
  await said()
  const completed = stage.events.filter(({ type }) => type === 'job.completed')
  expect(completed).toMatchObject([{ job: { id: first } }, { job: { id: last } }])
})

it('a report is written in several groups while workflows run, each with its starts', async () => {
  const { ledger } = harness
  const roots: string[] = []
  for (let n = 0; n < 3; n++) {
    const workflow = newGraph({ root: [], leaf: ['root'] })
    await ledger.workflows.create(workflow, NOW)
    roots.push((await ledger.read.workflows.find(workflow.id))?.steps[0]?.jobId ?? '')
  }
  // Jobs without a workflow: while workflows run, each job that ends has a group of its own.
  const others = [await pushed(ledger), await pushed(ledger)]
  const ids = [...others.map(({ id }) => id), ...roots]
  const said = (event: 'started' | 'completed') =>
    ids.map((id) => ({ ...AT, event, job_id: id }) as ReportEvent)
  const events = [...said('started'), ...said('completed')]

  const completed: number[] = []
  const completedNow = () => {
    const counts = ledger.known.queues().map(({ name }) => ledger.known.counts(name).completed)
    return counts.reduce((sum, count) => sum + count, 0)
  }
  const { emit } = stage.deps.events
  stage.deps.events.emit = (event) => {
    if (event.type === 'job.completed') completed.push(completedNow())
    emit.call(stage.deps.events, event)
  }
  let now = 0
  // Advances by 30 ms per call, and the report reads the clock once per write.
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => (now += 30))
  const reported = report(stage.deps, { worker_id: 'w', events }, { requestId: 'req_1' })
  // A write that is requested meanwhile comes after the whole report.
  await ledger.written()
  clock.mockRestore()
  expect(completedNow()).toBe(ids.length)
  expect(await reported).toMatchObject({ applied: 10, ignored: 0 })
  expect(completed).toEqual([2, 2, 4, 4, 5])
  const told = stage.events.map((event) => ('job' in event ? [event.type, event.job.id] : []))
  for (const id of ids) {
    const types = told.filter(([, of]) => of === id).map(([type]) => type)
    expect(types).toEqual(['job.started', 'job.completed'])
  }
})

it('a report of two attempts of a workflow step is applied in its order', async () => {
  const { ledger } = harness
  const workflow = newGraph({ root: [], leaf: ['root'] })
  await ledger.workflows.create(workflow, NOW)
  const id = (await ledger.read.workflows.find(workflow.id))?.steps[0]?.jobId ?? ''
  const said = [
    { ...AT, event: 'started' },
    FAILED,
    { ...AT, event: 'started', attempt: 2 },
    { ...AT, event: 'completed', attempt: 2 },
  ]
  const events = said.map((one) => ({ ...one, job_id: id }) as ReportEvent)
  await report(stage.deps, { worker_id: 'w', events }, { requestId: 'req_1' })
  const told = stage.events.flatMap((event) =>
    'job' in event && event.job.id === id ? [event.type] : [],
  )
  const first = ['job.started', 'job.failed', 'job.retrying']
  expect(told).toEqual([...first, 'job.enqueued', 'job.started', 'job.completed'])
})

it('a report that adopts an unknown job records the error that its headers tell of the last attempt', async () => {
  const id = uuid7()
  const headers = { 'x-ojs-error-code': 'smtp_down', 'x-ojs-error-message': 'no route' }
  const shown = { job: { id, type: 'a.b', args: [] }, headers }
  const started = { ...AT, attempt: 2, event: 'started', job_id: id, ...shown } as ReportEvent
  stage.deps.broker.shown = shownMessage
  await report(stage.deps, { worker_id: 'w', events: [started] }, { requestId: 'req_1' })
  const row = await harness.ledger.read.find(id)
  expect(row).toMatchObject({ state: 'active', attempt: 2 })
  expect(JSON.parse(row?.errors ?? '')).toMatchObject([
    { attempt: 1, code: 'smtp_down', message: 'no route' },
  ])
})

it('a reported failure replaces the error "rejected" when the dead letter came first', async () => {
  const { id } = await pushed(harness.ledger)
  const content = Buffer.from(JSON.stringify({ id }))
  const message = { content, headers: {} }
  const letter = { id, queue: 'default', generation: 0, attempt: 1, reason: 'rejected', message }
  await diedInBroker(stage.deps, { ...letter, isControl: false } as unknown as DeadLetter)
  const row = () => harness.ledger.read.find(id)
  expect(JSON.parse((await row())?.error ?? '')).toMatchObject({ code: 'rejected' })

  const discarded = { ...FAILED, job_id: id, outcome: { decision: 'discard' as const } }
  await report(stage.deps, { worker_id: 'w', events: [discarded] }, { requestId: 'req_1' })
  expect(await row()).toMatchObject({ state: 'discarded', attempt: 1 })
  const own = { code: 'boom', message: 'it went off' }
  expect(JSON.parse((await row())?.error ?? '')).toMatchObject(own)
  expect(JSON.parse((await row())?.errors ?? '')).toMatchObject([own])
})

it('a report fails with 503 while its unusable failed job cannot be dead-lettered', async () => {
  let outcome: PublishOutcome = 'refused'
  const shown: Broker['shown'] = () => {
    throw new OjsError('invalid_request', 'It is no job.')
  }
  stage = onToldBroker(harness, { publishUnusable: async () => outcome, shown })
  const id = uuid7()
  const event = { ...FAILED, job_id: id, job: { id, type: 'No Type', args: [] } }
  const said = () => report(stage.deps, { worker_id: 'w', events: [event] }, { requestId: 'req_1' })
  await expect(said()).rejects.toMatchObject({ status: 503, retryable: true })
  // A returned publish means that there is no dead letter queue, so a redelivery would never succeed.
  outcome = 'returned'
  expect(await said()).toMatchObject({ applied: 0, ignored: 1 })
})

it.each([
  ['kept as a dead letter', false],
  ['dropped when it was cancelled', true],
])('an unusable failed job in a report is %s', async (_, isCancelled) => {
  const buried: string[] = []
  const publishUnusable = async ({ id }: { id: string }) => {
    buried.push(id)
    return 'confirmed' as const
  }
  const shown: Broker['shown'] = () => {
    throw new OjsError('invalid_request', 'It is no job.')
  }
  stage = onToldBroker(harness, { publishUnusable, shown })
  const id = uuid7()
  if (isCancelled) await harness.ledger.cancelAny(id, 'q', NOW)
  const event = { ...FAILED, job_id: id, job: { id, type: 'No Type', args: [] } }
  await report(stage.deps, { worker_id: 'w', events: [event] }, { requestId: 'req_1' })
  expect(buried).toEqual(isCancelled ? [] : [id])
})
