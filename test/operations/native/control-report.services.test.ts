import { describe, expect, it } from 'vitest'
import type { ReportEvent } from '../../../src/job/request.ts'
import { retryDeadLetter } from '../../../src/operations/dead-letters/dead-letters.ts'
import { report } from '../../../src/operations/native/report.ts'
import { uuid7 } from '../../../src/uuid.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { freshQueue } from '../harness.ts'
import { CONTEXT, stageForAll } from './control-stage.ts'

const ERROR = { code: 'smtp_down', message: 'no route' }

type Told = {
  [E in ReportEvent as E['event']]: Omit<E, 'job_id' | 'attempt'>
}[ReportEvent['event']]

describe('a report', () => {
  const stage = stageForAll()
  const tell = (id: string, ...told: (Told & { attempt?: number })[]) => {
    const events = told.map((event) => ({ job_id: id, attempt: 1, ...event })) as ReportEvent[]
    return report(stage.deps, { worker_id: 'w1', events }, CONTEXT)
  }
  const depth = async (queue: string) => (await stage.channel.checkQueue(queue)).messageCount

  it('of an unknown job stores it with the queue and headers of its message', async () => {
    const queue = freshQueue()
    await stage.pushed(queue)
    stage.channel.ack(await stage.jobMessage(queue))
    const id = uuid7()
    const headers = { 'x-ojs-queue': queue, 'x-ojs-tenant': 'a' }
    const body = { id, type: 'test.job', args: [1] }
    // The report does not name the queue apart from the headers, and has start and end at once.
    const retry = { decision: 'retry' as const, delay_ms: 10 }
    expect(
      await tell(
        id,
        { event: 'started', job: body, headers, max_attempts: 5 },
        { event: 'failed', error: ERROR, outcome: retry },
      ),
    ).toMatchObject({ applied: 2, ignored: 0 })
    expect(await stage.row(id)).toMatchObject({
      queue,
      state: 'retryable',
      attempt: 1,
      maxAttempts: 5,
    })
    await stage.untilState(id, 'available')
    const again = await stage.jobMessage(queue)
    expect(again.properties.headers).toMatchObject({ ...headers, 'x-ojs-attempt': 2 })
    stage.channel.ack(again)
  })

  it('makes a natively processed job active and then completed with its result', async () => {
    const queue = freshQueue()
    const id = await stage.pushed(queue)
    const jobMessage = await stage.jobMessage(queue)
    expect(await tell(id, { event: 'started' })).toMatchObject({ applied: 1, ignored: 0 })
    expect(await stage.row(id)).toMatchObject({ state: 'active', workerId: 'w1', holder: 'native' })
    const done = { event: 'completed', result: { sent: [1, null] } } as const
    expect(await tell(id, { event: 'started' }, done)).toMatchObject({ applied: 1, ignored: 1 })
    stage.channel.ack(jobMessage)
    expect(await stage.row(id)).toMatchObject({ state: 'completed', result: '{"sent":[1,null]}' })
    expect(stage.storyOf(id)).toEqual(['job.enqueued', 'job.started', 'job.completed'])
    expect(await tell(id, done)).toMatchObject({ applied: 0, ignored: 1 })
  })

  it('that names only the end emits job.started as well', async () => {
    const queue = freshQueue()
    const [a, b] = [await stage.pushed(queue), await stage.pushed(queue)]
    const events: ReportEvent[] = [
      { job_id: a, attempt: 1, event: 'completed' },
      { job_id: b, attempt: 1, event: 'started' },
      { job_id: b, attempt: 1, event: 'completed' },
    ]
    const told = await report(stage.deps, { worker_id: 'w1', events }, CONTEXT)
    expect(told).toMatchObject({ applied: 3, ignored: 0 })
    for (const id of [a, b]) {
      expect(stage.storyOf(id)).toEqual(['job.enqueued', 'job.started', 'job.completed'])
      const [, started] = stage.events.filter((event) => 'job' in event && event.job.id === id)
      expect(started).toMatchObject({ job: { state: 'active', workerId: 'w1', attempt: 1 } })
      expect(await stage.row(id)).toMatchObject({ state: 'completed', workerId: 'w1' })
    }
  })

  it('of a failure without an outcome makes the gateway publish the retry when it is due', async () => {
    const queue = freshQueue()
    const id = await stage.pushed(queue, { retry: { initial_interval_ms: 200, jitter: false } })
    stage.channel.ack(await stage.jobMessage(queue))
    await tell(id, { event: 'failed', error: ERROR })
    expect(await stage.row(id)).toMatchObject({
      state: 'retryable',
      retryDelayMs: 200,
      retryQueueMs: null,
    })
    const again = await stage.jobMessage(queue)
    expect(again.properties).toMatchObject({ messageId: id, headers: { 'x-ojs-attempt': 2 } })
    expect(again.properties.headers).toMatchObject({ 'x-ojs-error-code': 'smtp_down' })
    await tell(id, { event: 'completed', attempt: 2 })
    stage.channel.ack(again)
    expect(JSON.parse((await stage.row(id)).errors ?? '[]')).toMatchObject([
      { attempt: 1, ...ERROR },
    ])
    expect(stage.storyOf(id)).toEqual([
      ...['job.enqueued', 'job.started', 'job.failed', 'job.retrying'],
      ...['job.enqueued', 'job.started', 'job.completed'],
    ])
  })

  it('of a failure of the last attempt makes the gateway publish the dead letter', async () => {
    const queue = freshQueue()
    const id = await stage.pushed(queue, { retry: { max_attempts: 1 } })
    stage.channel.ack(await stage.jobMessage(queue))
    await tell(id, { event: 'failed', error: ERROR })
    await eventually(async () => (await depth(`ojs.queue.dlx.${queue}`)) === 1)
    await eventually(async () => (await stage.row(id)).deadLetterCopied)
    const dead = { state: 'discarded', isDeadLetter: true, outbox: null, messageOut: false }
    expect(await stage.row(id)).toMatchObject(dead)
    expect(stage.storyOf(id).slice(1)).toEqual([
      'job.started',
      'job.failed',
      'job.discarded',
      'dead_letter.added',
    ])
  })

  it('of a retry that the worker has put into a retry queue makes the gateway publish no second job message', async () => {
    const queue = freshQueue()
    const id = await stage.pushed(queue)
    const jobMessage = await stage.jobMessage(queue)
    expect(await stage.deps.broker.ensureRetryQueue(queue, 250)).toBe('ready')
    const { headers, ...properties } = jobMessage.properties
    const next = { ...properties, headers: { ...headers, 'x-ojs-attempt': 2 } }
    stage.channel.publish('ojs.exchange.retry', `${queue}.250`, jobMessage.content, next as object)
    await stage.channel.waitForConfirms()
    const outcome = { decision: 'retry', delay_ms: 250, rung_ms: 250 } as const
    await tell(id, { event: 'failed', error: ERROR, outcome })
    stage.channel.ack(jobMessage)
    expect(await stage.row(id)).toMatchObject({ retryQueueMs: 250, outbox: null, messageOut: true })
    expect(await stage.fetched(queue)).toMatchObject({ id, attempt: 2, holder: 'gateway' })
    // There is no second job message.
    expect(await depth(`ojs.queue.${queue}`)).toBe(0)
  })

  it('of a discard leaves the copy to the nack of the worker, whose dead letter confirms it', async () => {
    const queue = freshQueue()
    const id = await stage.pushed(queue)
    const jobMessage = await stage.jobMessage(queue)
    await tell(id, { event: 'failed', error: ERROR, outcome: { decision: 'discard' } })
    expect(await stage.row(id)).toMatchObject({ state: 'discarded', deadLetterCopied: false })
    stage.channel.nack(jobMessage, false, false)
    await eventually(async () => (await stage.row(id)).deadLetterCopied)
    expect(await stage.row(id)).toMatchObject({
      attempt: 1,
      error: expect.stringContaining('smtp_down'),
    })
    expect(stage.storyOf(id).slice(1)).toEqual([
      'job.started',
      'job.failed',
      'job.discarded',
      'dead_letter.added',
    ])
  })

  it('of a completion of a job that its worker leased over HTTP ends it and settles its delivery', async () => {
    const queue = freshQueue()
    const id = await stage.pushed(queue)
    await stage.fetched(queue, { worker_id: 'w1' })
    expect(await tell(id, { event: 'completed' })).toMatchObject({ applied: 1, ignored: 0 })
    expect(stage.deps.jobMessages.held.has(id)).toBe(false)
    await eventually(async () => !(await stage.row(id)).messageOut)
  })

  it('of a completion of a job whose delivery this gateway no longer holds marks its job message as back', async () => {
    const queue = freshQueue()
    const id = await stage.pushed(queue)
    await stage.fetched(queue, { worker_id: 'w1' })
    stage.deps.jobMessages.held.delete(id)
    expect(await tell(id, { event: 'completed' })).toMatchObject({ applied: 1, ignored: 0 })
    await eventually(async () => !(await stage.row(id)).messageOut)
  })

  it('still applies to a job of which RabbitMQ has expired a duplicate job message meanwhile', async () => {
    const queue = freshQueue()
    const id = await stage.pushed(queue)
    const jobMessage = await stage.jobMessage(queue)
    await tell(id, { event: 'started' })
    // A duplicate, as it exists when a gateway died before it got the confirm and published again.
    const again = { ...jobMessage.properties, expiration: '1' } as object
    stage.channel.publish('ojs.exchange.direct', queue, jobMessage.content, again)
    await eventually(async () => (await stage.row(id)).holder !== 'native')
    expect(await stage.row(id)).toMatchObject({ state: 'active', holder: 'ledger', workerId: 'w1' })
    await tell(id, { event: 'completed', result: 1 })
    stage.channel.ack(jobMessage)
    expect(await stage.row(id)).toMatchObject({
      state: 'completed',
      result: '1',
      messageOut: false,
    })
    expect(stage.storyOf(id)).toEqual(['job.enqueued', 'job.started', 'job.completed'])
  })

  it('of an earlier generation is ignored after the dead letter was retried', async () => {
    const queue = freshQueue()
    const id = await stage.pushed(queue, { retry: { max_attempts: 1 } })
    stage.channel.ack(await stage.jobMessage(queue))
    await tell(id, { event: 'failed', error: ERROR, generation: 0 })
    await retryDeadLetter(stage.deps, id, CONTEXT)
    const late = [{ event: 'started' }, { event: 'completed' }] as const
    const told = await tell(id, ...late.map((event) => ({ ...event, generation: 0 })))
    expect(told).toMatchObject({ applied: 0, ignored: 2 })
    expect(await stage.row(id)).toMatchObject({ state: 'available', generation: 1, attempt: 0 })
  })
})
