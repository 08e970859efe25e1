import { describe, expect, it, vi } from 'vitest'
import { nativeClaim } from '../../../src/operations/native/claim.ts'
import { nativeHeartbeat } from '../../../src/operations/native/heartbeat.ts'
import { report } from '../../../src/operations/native/report.ts'
import { sync } from '../../../src/operations/native/sync.ts'
import { directWorker } from '../../../src/operations/workers/workers.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { freshQueue } from '../harness.ts'
import { CONTEXT, stageForAll } from './control-stage.ts'

describe('native workers', () => {
  const stage = stageForAll()
  const beat = (workerId: string, ids: string[], over: object = {}) =>
    nativeHeartbeat(stage.deps, { worker_id: workerId, job_ids: ids, ...over }, CONTEXT, 'heard.on')
  const started = (workerId: string, id: string, attempt = 1) => {
    const events = [{ job_id: id, attempt, event: 'started' as const }]
    return report(stage.deps, { worker_id: workerId, events }, CONTEXT)
  }
  const claim = (workerId: string, id: string, attempt = 1, queue = 'default') =>
    nativeClaim(
      stage.deps,
      { worker_id: workerId, job_id: id, attempt },
      { queue, redelivered: false },
    )
  const depth = async (queue: string) => (await stage.channel.checkQueue(queue)).messageCount

  describe('heartbeat', () => {
    it('starts a job whose start was not reported, and extends its lease', async () => {
      const queue = freshQueue()
      const id = await stage.pushed(queue)
      await stage.jobMessage(queue)
      await beat('w1', [id], { visibility_timeout_ms: 60_000 })
      const { leaseExpiresAt } = await stage.row(id)
      expect(await stage.row(id)).toMatchObject({ state: 'active', attempt: 1, workerId: 'w1' })
      stage.advance(10_000)
      await beat('w1', [id])
      expect((await stage.row(id)).leaseExpiresAt).toBeGreaterThanOrEqual(
        (leaseExpiresAt ?? 0) + 10_000,
      )
      await beat('w2', [id])
      expect((await stage.row(id)).workerId).toBe('w1')
      expect(stage.storyOf(id)).toEqual(['job.enqueued', 'job.started', 'job.heartbeat'])
    })

    it('makes a job active again whose lease expired; a late completion still counts', async () => {
      const queue = freshQueue()
      const id = await stage.pushed(queue, { retry: { max_attempts: 1 } })
      await stage.jobMessage(queue)
      await started('w1', id)
      stage.advance(31_000)
      const expired = await stage.untilState(id, 'available')
      expect(expired).toMatchObject({ holder: 'native', outbox: null, attempt: 1 })
      await beat('w1', [id])
      expect(await stage.row(id)).toMatchObject({ state: 'active', attempt: 1, workerId: 'w1' })
      stage.advance(31_000)
      await stage.untilState(id, 'available')
      const events = [{ job_id: id, attempt: 1, event: 'completed' as const }]
      await report(stage.deps, { worker_id: 'w1', events }, CONTEXT)
      expect(await stage.row(id)).toMatchObject({ state: 'completed', attempt: 1 })
      expect(await depth(`ojs.queue.${queue}`)).toBe(0)
    })

    it('that names a cancelled job causes another cancel broadcast', async () => {
      const queue = freshQueue()
      const id = await stage.pushed(queue)
      await started('w1', id)
      await stage.deps.ledger.cancel(id, stage.deps.clock.now())
      const heard = await stage.heard(queue)
      await beat('w1', [id])
      await eventually(() => heard.length > 0)
      expect(heard).toEqual([{ type: 'ojs.control.cancel', body: { job_id: id, generation: 0 } }])
    })

    it('that lags behind the state the worker was told causes the directive to be broadcast again', async () => {
      const queue = freshQueue()
      const heard = await stage.heard(queue)
      await beat('w9', [], { queues: [queue], state: 'running' })
      await directWorker(stage.deps, 'w9', 'quiet', CONTEXT)
      await eventually(() => heard.length === 1)
      await beat('w9', [], { state: 'running' })
      await eventually(() => heard.length === 2)
      await beat('w9', [], { state: 'quiet' })
      await directWorker(stage.deps, 'w9', 'terminate', CONTEXT)
      await eventually(() => heard.length === 3)
      const body = { worker_id: 'w9', state: 'quiet' }
      expect(heard).toEqual([
        { type: 'ojs.control.directive', body },
        { type: 'ojs.control.directive', body },
        { type: 'ojs.control.directive', body: { ...body, state: 'terminate' } },
      ])
    })
  })

  describe('claim of a redelivered job message', () => {
    it('answers drop while another worker holds the lease; its expiry publishes the next job message', async () => {
      const queue = freshQueue()
      const id = await stage.pushed(queue)
      stage.channel.nack(await stage.jobMessage(queue), false, true)
      await started('w1', id)
      const again = await stage.jobMessage(queue)
      expect(await claim('w2', id)).toEqual({ decision: 'drop', attempt: 1 })
      stage.channel.ack(again)
      expect(await stage.row(id)).toMatchObject({
        state: 'active',
        holder: 'ledger',
        workerId: 'w1',
      })
      stage.advance(31_000)
      const next = await stage.jobMessage(queue)
      expect(next.properties.headers).toMatchObject({ 'x-ojs-attempt': 2 })
      stage.channel.ack(next)
    })

    it('starts another attempt for the worker that lost its channel, until none is left: discard', async () => {
      const queue = freshQueue()
      const id = await stage.pushed(queue, { retry: { max_attempts: 2 } })
      const jobMessage = await stage.jobMessage(queue)
      await started('w1', id)
      expect(await claim('w1', id)).toEqual({ decision: 'run', attempt: 2 })
      expect(await stage.row(id)).toMatchObject({ attempt: 1, holder: 'native' })
      await started('w1', id, 2)
      expect(await stage.row(id)).toMatchObject({ state: 'active', attempt: 2 })
      // The redelivered job message still says attempt 1.
      expect(await claim('w1', id)).toEqual({ decision: 'discard', attempt: 1 })
      stage.channel.nack(jobMessage, false, false)
      const dead = await stage.untilState(id, 'discarded')
      expect(dead).toMatchObject({ attempt: 2, isDeadLetter: true, deadLetterCopied: true })
      // The gateway learnt of the dead letter from another copy, in its own system queue.
      await eventually(async () => (await depth(`ojs.queue.dlx.${queue}`)) === 1)
    })

    it('counts as an attempt for HTTP too: FETCH gets attempt 3 once the worker is gone', async () => {
      const queue = freshQueue()
      const id = await stage.pushed(queue)
      const jobMessage = await stage.jobMessage(queue)
      await started('w1', id)
      await started('w1', id, 2)
      stage.advance(31_000)
      await stage.untilState(id, 'available')
      stage.channel.nack(jobMessage, false, true)
      expect(await stage.fetched(queue)).toMatchObject({ id, attempt: 3, holder: 'gateway' })
    })

    it('answers drop for a cancelled job, whose job message is then no longer out', async () => {
      const queue = freshQueue()
      const id = await stage.pushed(queue)
      const jobMessage = await stage.jobMessage(queue)
      await stage.deps.ledger.cancel(id, stage.deps.clock.now())
      expect(await claim('w1', id)).toEqual({ decision: 'drop', attempt: 1 })
      stage.channel.ack(jobMessage)
      await eventually(async () => !(await stage.row(id)).messageOut)
      expect(await claim('w1', 'nobody', 3)).toEqual({ decision: 'run', attempt: 3 })
    })

    it('answers requeue while the queue is paused, also for a job that the ledger does not know', async () => {
      const queue = freshQueue()
      const id = await stage.pushed(queue)
      const jobMessage = await stage.jobMessage(queue)
      const { pauses } = stage.deps.ledger
      await pauses.pause(queue, stage.deps.clock.now())
      expect(await claim('w1', id)).toEqual({ decision: 'requeue', attempt: 1 })
      expect(await claim('w1', 'nobody', 1, queue)).toEqual({ decision: 'requeue', attempt: 1 })
      await pauses.resume(queue, stage.deps.clock.now())
      expect(await claim('w1', id)).toEqual({ decision: 'run', attempt: 1 })
      stage.channel.ack(jobMessage)
    })

    it('answers drop for a job whose delivery this gateway holds', async () => {
      const queue = freshQueue()
      const id = await stage.pushed(queue)
      await stage.fetched(queue, { worker_id: 'http' })
      expect(await claim('w1', id)).toEqual({ decision: 'drop', attempt: 1 })
      expect(await stage.row(id)).toMatchObject({ state: 'active', holder: 'gateway' })
    })
  })

  describe('sync', () => {
    it('declares the queues, and answers the cancelled jobs and the directive of the worker', async () => {
      const [queue, other] = [freshQueue(), freshQueue()]
      const cancelled = await stage.pushed(queue)
      await stage.deps.ledger.cancel(cancelled, stage.deps.clock.now())
      await stage.deps.ledger.cancelAny('unknown', other, stage.deps.clock.now() + 1)
      const answer = await sync(stage.deps, { worker_id: 'w5', queues: [queue, other] })
      expect(answer).toEqual({
        tombstones: ['unknown', cancelled],
        truncated: false,
        paused: [],
        directive: 'running',
      })
      expect(await depth(`ojs.queue.${other}`)).toBe(0)
      expect(stage.deps.ledger.known.queues().map(({ name }) => name)).toContain(other)
      await directWorker(stage.deps, 'w5', 'quiet', CONTEXT)
      const again = await sync(stage.deps, { worker_id: 'w5', queues: [queue] })
      expect(again).toMatchObject({ tombstones: [cancelled], directive: 'quiet' })
    })

    it('answers the messages that another priority has made void, and nothing of the job else', async () => {
      const queue = freshQueue()
      const id = await stage.pushed(queue)
      const before = await stage.jobMessage(queue)
      const terms = { now: stage.deps.clock.now(), cause: {}, mayReplace: true }
      await stage.deps.ledger.prioritize(id, 5, terms)
      const answer = await sync(stage.deps, { worker_id: 'w6', queues: [queue] })
      expect(answer.tombstones).toEqual([id])
      expect(answer.generations).toBeUndefined()
      await stage.deps.ledger.prioritize(id, 6, terms)
      const again = await sync(stage.deps, { worker_id: 'w6', queues: [queue] })
      expect(again).toMatchObject({ tombstones: [id], generations: { [id]: 1 } })
      stage.channel.ack(before)
    })

    it('lists a lost queue in not_ready and does not declare it', async () => {
      const [known, lost] = [freshQueue(), freshQueue()]
      const { broker } = stage.deps
      const recheck = broker.recheckQueue.bind(broker)
      const spy = vi.spyOn(broker, 'recheckQueue')
      spy.mockImplementation((queue) => (queue === lost ? Promise.resolve('lost') : recheck(queue)))
      const answer = await sync(stage.deps, { queues: [known, lost] })
      spy.mockRestore()
      expect(answer).toMatchObject({ tombstones: [], not_ready: [lost] })
      expect(stage.deps.ledger.known.queues().map(({ name }) => name)).not.toContain(lost)
    })

    it('refuses an invalid queue name with 400', async () => {
      const request = { worker_id: 'w5', queues: ['dlx.a'] }
      await expect(sync(stage.deps, request)).rejects.toMatchObject({ status: 400 })
    })
  })
})
