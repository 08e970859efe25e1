import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { EXPIRED } from '../../../src/job/dead-letter.ts'
import { toNewJob } from '../../../src/job/envelope.ts'
import type { JobRow } from '../../../src/job/job.ts'
import type { PushRequest } from '../../../src/job/request.ts'
import { isStale } from '../../../src/job/stale.ts'
import type { WorkflowRow } from '../../../src/job/workflow/row.ts'
import { WORKFLOW_STATES } from '../../../src/job/workflow/workflow.ts'
import type { WorkflowNews } from '../../../src/ledger/ended.ts'
import type { NewWorkflow } from '../../../src/ledger/workflows.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import { newGraph, newWorkflow } from '../../support/gateway/workflows.ts'
import {
  deleteDeadLetter,
  FAILED,
  failAttempt,
  fenceOf,
  fetched,
  jobMessage,
  NOW,
  pushed,
  revive,
  settleLazily,
  staleAt,
  TERMS,
  type UnderTest,
} from '../harness.ts'
import { hearing, newsIn } from '../news.ts'

const DIAMOND = { a: [], b: ['a'], c: ['a'], d: ['b', 'c'] }
const LATER = { ...FAILED, now: NOW + 5 }
const job = (over: object = {}) => ({ type: 't', args: [], ...over })
/** Replaces a step `a` with the same options. */
const REQUEST = {
  type: 'a',
  args: [],
  options: { queue: 'default', unique: { keys: ['type'], on_conflict: 'replace' } },
} satisfies PushRequest
const rival = () => {
  const { id } = newJob()
  const context = { newId: () => id, now: NOW, wall: NOW, timeoutMs: 30_000, prefix: '' }
  return toNewJob(REQUEST, context)
}

/** A step of a workflow begins, exactly once, when the last job that it waits for ends. */
export function workflowContract({ harness, row, ...under }: UnderTest): void {
  /** What the outcomes of the writes have told, in order. */
  let news: WorkflowNews[] = []
  const ledger = hearing(under.ledger, (one) => void news.push(one))
  beforeEach(() => {
    news = []
  })
  afterEach(async () => {
    // The totals are kept in a table of their own instead of being counted, so they must not drift.
    const all = await ledger.read.workflows.list({ state: null, limit: 100, offset: 0 })
    expect(all.total).toBe(all.workflows.length)
    for (const state of WORKFLOW_STATES) {
      const { workflows, total } = await ledger.read.workflows.list({
        state,
        limit: 100,
        offset: 0,
      })
      expect(total, state).toBe(workflows.length)
    }
  })
  const create = async (workflow: NewWorkflow): Promise<NewWorkflow> => {
    await ledger.workflows.create(workflow, NOW)
    return workflow
  }
  const find = async ({ id }: NewWorkflow): Promise<WorkflowRow> => {
    const found = await ledger.read.workflows.find(id)
    if (!found) throw new Error(`no workflow ${id}`)
    return found
  }
  const stepOf = async (workflow: NewWorkflow, id: string) => {
    const step = (await find(workflow)).steps.find((one) => one.id === id)
    if (!step) throw new Error(`no step ${id}`)
    return step
  }
  const jobOf = async (workflow: NewWorkflow, id: string): Promise<JobRow> =>
    await row((await stepOf(workflow, id)).jobId ?? '')
  const progress = async (workflow: NewWorkflow) =>
    Object.fromEntries((await find(workflow)).steps.map((step) => [step.id, step.progress]))
  const claim = async (workflow: NewWorkflow, id: string): Promise<JobRow> => {
    const [result] = await ledger.claim([jobMessage((await jobOf(workflow, id)).id)], TERMS)
    if (result?.verdict !== 'claimed') throw new Error(`not claimed: ${result?.verdict}`)
    return result.job
  }
  const complete = async (workflow: NewWorkflow, id: string, result: string | null = null) => {
    const { id: jobId } = await claim(workflow, id)
    return await ledger.complete(jobId, {}, { now: NOW + 5, result })
  }
  const discard = (lease: JobRow) => {
    const change = { ...LATER, to: 'discarded', isDeadLetter: true, copy: 'nack' } as const
    return failAttempt(ledger, lease.id, fenceOf(lease), change)
  }
  const running = async () =>
    (await ledger.read.workflows.list({ state: 'running', limit: 0, offset: 0 })).total
  const told = () => news.map((one) => `${one.what} ${nameIn(one)}`)

  describe('a workflow', () => {
    it('is remembered with the idempotency key of its request, and stored once', async () => {
      const asked = (key: string) => ({ key, fingerprint: 'f' })
      const workflow = newGraph({ a: [] })
      const create = (one: NewWorkflow, key: string) =>
        ledger.workflows.create(one, NOW, asked(key))
      expect((await create(workflow, 'w')).outcome).toBe('created')
      expect(await ledger.read.idempotency.find('w', NOW)).toMatchObject({
        ids: [workflow.id],
        existing: [],
      })
      expect((await create(workflow, 'w')).outcome).toBe('remembered')
      expect(await create({ ...workflow, nodes: [] }, 'x')).toEqual({ outcome: 'duplicate' })
      expect(await ledger.read.idempotency.find('x', NOW)).toBeNull()
    })

    it('tells how a workflow stands that it has stored', async () => {
      const workflow = newGraph({ a: [], b: ['a'] })
      const created = await ledger.workflows.create(workflow, NOW)
      const stands = { outcome: 'created', workflow: await find(workflow) }
      expect(created).toEqual({ ...stands, news: newsIn(created) })
      expect(told()).toEqual(['born a'])
      expect(await ledger.workflows.create(workflow, NOW)).toEqual({ outcome: 'duplicate' })
    })

    it('keeps the rows of its steps, which a purge tells', async () => {
      const workflow = await create(newGraph({ a: [], b: ['a'] }))
      const { id } = await claim(workflow, 'a')
      await ledger.complete(id, {}, { now: NOW + 5, result: null })
      const waiting = (await jobOf(workflow, 'b')).id
      const terms = { states: ['completed', 'available'], now: NOW + 6 } as const
      const purged = await ledger.purge([id, waiting], terms)
      expect(
        purged.map(({ job, cancelled, isKept }) => [job.id, cancelled !== null, isKept]),
      ).toEqual([
        [id, false, true],
        [waiting, true, true],
      ])
      expect(await row(id)).toMatchObject({ state: 'completed' })
      expect(await row(waiting)).toMatchObject({ state: 'cancelled' })
    })

    it('begins at once with the steps that depend on no other step', async () => {
      const workflow = await create(newGraph({ a: [], b: ['a'], c: [] }))
      expect(await find(workflow)).toMatchObject({
        name: 'graph',
        type: 'dag',
        state: 'running',
        createdAt: NOW,
        endedAt: null,
        ...{ total: 3, completed: 0, failed: 0, open: 3 },
      })
      expect(await progress(workflow)).toEqual({ a: 'started', b: 'waiting', c: 'started' })
      expect(await stepOf(workflow, 'b')).toMatchObject({
        state: 'pending',
        jobId: null,
        dependsOn: ['a'],
      })
      const owed = await Promise.all((await ledger.read.outboxPage(0, 9)).map(({ id }) => row(id)))
      expect(owed.map(({ type }) => type)).toEqual(['a', 'c'])
      expect(owed[0]).toMatchObject({
        state: 'available',
        messageOut: true,
        enqueuedAt: NOW,
        attempt: 0,
      })
      expect(JSON.parse(owed[0]?.envelope ?? '')).toMatchObject({
        workflow_id: workflow.id,
        workflow_step: 'a',
        parent_results: {},
      })
      expect(news.map((one) => one.what === 'born' && one.job)).toEqual(owed)
      expect(ledger.known.queues().map(({ name }) => name)).toEqual(['default'])
    })

    it('begins a step in the commit that ends the last job it depends on', async () => {
      const workflow = await create(newGraph(DIAMOND))
      await complete(workflow, 'a', '{"x":1}')
      expect(await progress(workflow)).toEqual({
        a: 'completed',
        b: 'started',
        c: 'started',
        d: 'waiting',
      })
      expect(told()).toEqual(['born a', 'step a', 'born b', 'born c'])
      await complete(workflow, 'b', '2')
      expect((await stepOf(workflow, 'd')).progress).toBe('waiting')
      await complete(workflow, 'c')
      expect(JSON.parse((await jobOf(workflow, 'd')).envelope).parent_results).toEqual({
        a: { x: 1 },
        b: 2,
        c: null,
      })
      await complete(workflow, 'd')
      expect(await find(workflow)).toMatchObject({
        state: 'completed',
        endedAt: NOW + 5,
        startedAt: NOW,
        ...{ completed: 4, open: 0 },
      })
      expect(await stepOf(workflow, 'd')).toMatchObject({ state: 'completed', endedAt: NOW + 5 })
      expect(told().slice(-2)).toEqual(['step d', 'ended completed'])
      expect(news.at(-1)?.workflow).toMatchObject({ id: workflow.id, state: 'completed', open: 0 })
      expect(await running()).toBe(0)
    })

    it('passes each step only the results of its own workflow when another one of the same shape runs', async () => {
      const workflows = [await create(newGraph(DIAMOND)), await create(newGraph(DIAMOND))]
      for (const step of ['a', 'b', 'c']) {
        for (const [i, workflow] of workflows.entries()) await complete(workflow, step, `${i}`)
      }
      for (const [i, workflow] of workflows.entries()) {
        expect(JSON.parse((await jobOf(workflow, 'd')).envelope)).toMatchObject({
          workflow_id: workflow.id,
          parent_results: { a: i, b: i, c: i },
        })
        expect((await find(workflow)).steps.map(({ id }) => id)).toEqual(['a', 'b', 'c', 'd'])
      }
    })

    it('copies at most 16 MiB of results into the jobs that begin in one commit', async () => {
      const names = Array.from({ length: 300 }, (_, i) => `b${i}`)
      const graph = { a: [], ...Object.fromEntries(names.map((name) => [name, ['a']])) }
      const workflow = await create(newGraph({ ...graph, last: ['b0'] }))
      const result = JSON.stringify('x'.repeat(65_000))
      await complete(workflow, 'a', result)
      const resultIn = async (step: string) =>
        JSON.parse((await jobOf(workflow, step)).envelope).parent_results.a as unknown
      const isCopied = async (step: string) => typeof (await resultIn(step)) === 'string'
      const copied = Math.floor((16 * 1024 * 1024) / result.length)
      expect(await Promise.all(names.map(isCopied))).toEqual(names.map((_, i) => i < copied))
      expect(await resultIn('b299')).toMatchObject({ result_size_bytes: result.length })
      // Jobs that begin in a later commit have 16 MiB of their own.
      await complete(workflow, 'b0')
      expect(await isCopied('last')).toBe(true)
    })

    it('reports the size of a result in UTF-8 bytes', async () => {
      const workflow = await create(newGraph({ a: [] }))
      await complete(workflow, 'a', '"ü😀"')
      expect(await stepOf(workflow, 'a')).toMatchObject({ result: '"ü😀"', resultBytes: 8 })
    })

    it('reads the first megabyte of results in full, and only the sizes of the others', async () => {
      const result = `"${'x'.repeat(65_534)}"`
      const jobs = Array.from({ length: 20 }, () => job())
      const workflow = await create(newWorkflow({ type: 'group', jobs }))
      for (const { id } of (await find(workflow)).steps) await complete(workflow, id, result)
      const { steps } = await find(workflow)
      expect(steps.map((step) => step.result === result)).toEqual(jobs.map((_, i) => i < 16))
      expect(new Set(steps.map(({ resultBytes }) => resultBytes))).toEqual(new Set([65_536]))
    })

    it('lists the callbacks of a nested batch after the steps', async () => {
      const batch = { type: 'batch', jobs: [job()], callbacks: { on_complete: job() } }
      const workflow = await create(newWorkflow({ type: 'chain', steps: [batch, job()] }))
      expect((await find(workflow)).steps.map(({ id }) => id)).toEqual([
        '0.0',
        '1',
        '0.on_complete',
      ])
    })

    it('has no news of a job that is no step of it', async () => {
      await create(newGraph({ a: [] }))
      const { id } = await fetched(ledger)
      const done = await ledger.complete(id, {}, { now: NOW + 5, result: null })
      expect(done).toMatchObject({ state: 'completed' })
      expect(done).not.toHaveProperty('news')
      expect(told()).toEqual(['born a'])
    })

    it('starts a step once when the two jobs it depends on end in one commit', async () => {
      const workflow = await create(newGraph({ a: [], b: [], c: ['a', 'b'] }))
      const leases = [await claim(workflow, 'a'), await claim(workflow, 'b')]
      // All four acknowledgements share one group commit; the second one of each job is stale.
      const ends = [...leases, ...leases].map(({ id }) =>
        ledger.complete(id, {}, { now: NOW + 5, result: null }),
      )
      const outcomes = await Promise.all(ends)
      expect(outcomes.filter((one) => isStale(one))).toHaveLength(2)
      expect(told().filter((one) => one === 'born c')).toHaveLength(1)
      expect(ledger.known.counts('default')).toMatchObject({ available: 1, completed: 2 })
    })

    it.each([{ attempt: 2 }, { workerId: 'another' }])(
      'begins no step when the ACK is stale: %o',
      async (fence) => {
        const workflow = await create(newGraph({ a: [], b: ['a'] }))
        const { id } = await claim(workflow, 'a')
        expect(await ledger.complete(id, fence, { now: NOW, result: null })).toEqual(
          await staleAt(ledger, id),
        )
        expect(await progress(workflow)).toEqual({ a: 'started', b: 'waiting' })
      },
    )

    it('continues after a restart', async () => {
      const workflow = await create(newGraph(DIAMOND))
      await complete(workflow, 'a')
      await complete(workflow, 'b')
      await harness.reopen()
      expect(await running()).toBe(1)
      await complete(workflow, 'c')
      await harness.reopen()
      await complete(workflow, 'd')
      expect(await find(workflow)).toMatchObject({ state: 'completed', completed: 4, open: 0 })
      await harness.reopen()
      expect(
        (await ledger.read.workflows.list({ state: 'completed', limit: 9, offset: 0 })).total,
      ).toBe(1)
    })

    it('shows the state of the job for a step that has begun', async () => {
      const retry = { max_attempts: 2 }
      const workflow = await create(newGraph({ a: [], b: ['a'] }, { retry }))
      const lease = await claim(workflow, 'a')
      expect(await stepOf(workflow, 'a')).toMatchObject({
        state: 'active',
        startedAt: NOW,
        attempt: 1,
      })
      const rest = { dueAt: NOW + 9, delayMs: 9, retryQueueMs: null, isMessageBack: true }
      await failAttempt(ledger, lease.id, fenceOf(lease), { ...LATER, to: 'retryable', ...rest })
      expect(await stepOf(workflow, 'a')).toMatchObject({ state: 'retryable', progress: 'started' })
      expect((await find(workflow)).state).toBe('running')
    })

    it('starts when the first of its jobs is claimed', async () => {
      const workflow = await create(newGraph({ a: [], b: [] }))
      expect((await find(workflow)).startedAt).toBeNull()
      await claim(workflow, 'b')
      await ledger.claim([jobMessage((await jobOf(workflow, 'a')).id)], { ...TERMS, now: NOW + 7 })
      expect((await find(workflow)).startedAt).toBe(NOW)
    })

    it('schedules a step that has its own delay_until, without asking for a job message', async () => {
      const workflow = await create(newGraph({ a: [], b: ['a'] }, { delay_until: '+PT1H' }))
      const before = Date.now()
      expect(await jobOf(workflow, 'a')).toMatchObject({ state: 'scheduled', outbox: null })
      await ledger.promote(NOW, before + 4_000_000, 9)
      await complete(workflow, 'a')
      expect((await jobOf(workflow, 'b')).dueAt).toBeGreaterThanOrEqual(before + 3_600_000)
    })

    it('stores nothing and reports no news when its id is already taken', async () => {
      const workflow = await create(newGraph({ a: [] }))
      news = []
      const other = newGraph({ b: [] })
      const [again] = await Promise.all([
        ledger.workflows.create({ ...newGraph({ x: [], y: [] }), id: workflow.id }, NOW),
        create(other),
      ])
      expect(again).toEqual({ outcome: 'duplicate' })
      expect(told()).toEqual(['born b'])
      expect([ledger.known.counts('default').available, await running()]).toEqual([2, 2])
    })
  })

  describe('a workflow goes on or fails when its job ends by', () => {
    const ends: [
      string,
      (workflow: NewWorkflow) => Promise<unknown>,
      'completed' | 'failed',
      string,
    ][] = [
      ['ACK', (workflow) => complete(workflow, 'a'), 'completed', 'completed'],
      ['FAIL', async (workflow) => discard(await claim(workflow, 'a')), 'failed', 'discarded'],
      [
        'CANCEL',
        async (workflow) => ledger.cancel((await jobOf(workflow, 'a')).id, NOW),
        'failed',
        'cancelled',
      ],
      [
        'a report',
        async (workflow) => {
          const { id } = await jobOf(workflow, 'a')
          const said = { event: 'completed', result: '1' } as const
          const event = { id, generation: 0, attempt: 1, workerId: 'n', said }
          await ledger.applyReports([event], { now: NOW, defaultLeaseMs: 9, random: () => 0 })
        },
        'completed',
        'completed',
      ],
      [
        'a report of an attempt that had begun, and failed',
        async (workflow) => {
          const { id } = await jobOf(workflow, 'a')
          const failure = { code: 'boom', type: 'Boom', message: 'm', retryable: false }
          const said = { event: 'failed', failure, outcome: { decision: 'discard' } } as const
          const event = { id, generation: 0, attempt: 1, workerId: 'n', said }
          await ledger.applyReports([event], { now: NOW, defaultLeaseMs: 9, random: () => 0 })
        },
        'failed',
        'discarded',
      ],
      [
        'a report of an expiry',
        async (workflow) => {
          const { id } = await jobOf(workflow, 'a')
          await under.plant({ id, expiresAt: NOW - 1 })
          const said = { event: 'expired' } as const
          const event = { id, generation: 0, attempt: 1, workerId: 'n', said }
          await ledger.applyReports([event], { now: NOW, defaultLeaseMs: 9, random: () => 0 })
        },
        'failed',
        'discarded',
      ],
      [
        'the end of its lease',
        async (workflow) => {
          await claim(workflow, 'a')
          const change = { ...LATER, to: 'discarded', isDeadLetter: true, copy: 'nack' } as const
          await ledger.endOverdue({ now: NOW + 1e9, limit: 9, which: 'all' }, () => change)
        },
        'failed',
        'discarded',
      ],
      [
        'CANCEL by message',
        async (workflow) => ledger.cancelAny((await jobOf(workflow, 'a')).id, 'default', NOW),
        'failed',
        'cancelled',
      ],
      [
        'an operator',
        async (workflow) => {
          const { id } = await jobOf(workflow, 'a')
          const whom = {
            states: ['available'],
            deadLettersOnly: false,
            sparesRetried: false,
          } as const
          const terms = { now: NOW, wall: NOW, cause: {}, maxMs: 1_000 }
          await ledger.bulk.act([id], { action: 'cancel', ...whom, scope: null }, terms)
        },
        'failed',
        'cancelled',
      ],
      [
        'a purge',
        async (workflow) => {
          const { id } = await jobOf(workflow, 'a')
          await ledger.purge([id], { states: ['available'], now: NOW })
        },
        'failed',
        'cancelled',
      ],
      ['a unique job that replaces it', () => ledger.insert(rival(), NOW), 'failed', 'cancelled'],
      [
        'a batch with a unique job that replaces it',
        () => ledger.insertAll([rival()], NOW),
        'failed',
        'cancelled',
      ],
      [
        'a recurring job that replaces it',
        async () => {
          const when = { expression: '* * * * *', timezone: 'UTC', isEnabled: true }
          const entry = { name: 'n', overlap: 'allow', ...when, description: null } as const
          const first = { nextRunAt: NOW, createdAt: NOW, limit: 9 }
          await ledger.cron.register({ ...entry, template: REQUEST }, first)
          const { seq = 0 } = (await ledger.read.cron.find('n')) ?? {}
          const change = { job: rival(), now: NOW, nextRunAt: NOW + 60_000, maxQueued: 1 }
          await ledger.cron.fire(
            { name: 'n', seq, at: NOW },
            { ...change, isUnsettled: () => false },
          )
        },
        'failed',
        'cancelled',
      ],
      [
        'a job message that died in the broker',
        async (workflow) => {
          const { id, type } = await jobOf(workflow, 'a')
          const describe = () => ({ error: null, errors: null, isDeadLetter: true })
          const how = { isExpired: false, wasInQueue: false }
          const dead = { id, generation: 0, attempt: 1, ...how, describe }
          const adopt = () => newJob({ id, type })
          return ledger.discardDead({ ...dead, adopt }, { now: NOW, wall: NOW })
        },
        'failed',
        'discarded',
      ],
    ]

    it.each(ends)('%s', async (_, end, outcome, state) => {
      const workflow = await create(newGraph({ a: [], b: ['a'] }, REQUEST.options))
      news = []
      await end(workflow)
      // The write that ended the job told what this did to its workflow.
      const isGood = outcome === 'completed'
      expect(told()).toEqual(isGood ? ['step a', 'born b'] : ['step a', 'ended a'])
      expect(await stepOf(workflow, 'a')).toMatchObject({ progress: outcome, state })
      const next = outcome === 'completed' ? 'started' : 'cancelled'
      const endedAt = outcome === 'completed' ? null : (await stepOf(workflow, 'a')).endedAt
      expect(await stepOf(workflow, 'b')).toMatchObject({ progress: next, endedAt })
      expect((await find(workflow)).state).toBe(outcome === 'completed' ? 'running' : 'failed')
    })

    it('expiry', async () => {
      const workflow = await create(
        newGraph({ a: [], b: ['a'] }, { expires_at: '2100-01-01T00:00:00Z' }),
      )
      await ledger.expire({ now: NOW, wall: Date.parse('2100-01-01T00:00:01Z'), limit: 9 })
      expect(told()).toEqual(['born a', 'step a', 'ended a'])
      expect(await find(workflow)).toMatchObject({ state: 'failed', failed: 1, open: 0 })
      expect((await stepOf(workflow, 'a')).state).toBe('discarded')
      expect((await jobOf(workflow, 'a')).error).toBe(EXPIRED)
      expect((await stepOf(workflow, 'a')).error).toBe(EXPIRED)
    })

    it('a job message that arrives after its expiry', async () => {
      const workflow = await create(newGraph({ a: [], b: ['a'] }))
      const { id } = await jobOf(workflow, 'a')
      await under.plant({ id, expiresAt: NOW - 1 })
      const [result] = await ledger.claim([jobMessage(id)], TERMS)
      expect(result?.verdict).toBe('expired')
      expect(told()).toEqual(['born a', 'step a', 'ended a'])
    })

    it('a job message that arrives with more attempts than allowed', async () => {
      const workflow = await create(newGraph({ a: [], b: ['a'] }, { retry: { max_attempts: 1 } }))
      const { id } = await jobOf(workflow, 'a')
      const [result] = await ledger.claim([jobMessage(id, { attempt: 2 })], TERMS)
      expect(result?.verdict).toBe('exhausted')
      expect(told()).toEqual(['born a', 'step a', 'ended a'])
      expect((await find(workflow)).state).toBe('failed')
    })
  })

  describe('a step that is over', () => {
    const act = async (action: 'retry' | 'delete', id: string) => {
      const states = ['completed', 'cancelled', 'discarded'] as const
      const bounds = { states, deadLettersOnly: false, sparesRetried: false, scope: null }
      const terms = { now: NOW + 9, wall: NOW, cause: {}, maxMs: 1_000 }
      const [one] = await ledger.bulk.act([id], { action, ...bounds }, terms)
      return one?.did ?? one?.reason
    }

    it('is not deleted, nor retried if it is completed, as long as there is its workflow', async () => {
      const workflow = await create(newGraph({ a: [], b: [] }))
      await complete(workflow, 'a')
      const [a, b] = [await jobOf(workflow, 'a'), await jobOf(workflow, 'b')]
      await ledger.cancel(b.id, NOW)
      expect([await act('delete', a.id), await act('retry', a.id)]).toEqual([
        'workflow_step',
        'workflow_step',
      ])
      expect(await act('delete', b.id)).toBe('workflow_step')
      expect(await row(a.id)).toMatchObject({ state: 'completed', generation: 0 })
      expect(await act('retry', b.id)).toBe('retry')
    })

    it('is deleted if it is a dead letter: its workflow has what it needs of it', async () => {
      const workflow = await create(newGraph({ a: [], b: ['a'] }))
      const lease = await claim(workflow, 'a')
      await discard(lease)
      expect(await act('delete', lease.id)).toBe('delete')
      expect(await stepOf(workflow, 'a')).toMatchObject({ progress: 'failed', state: 'discarded' })
    })
  })

  describe('a failed step', () => {
    it('cancels all steps that depend on it at once, and no other step', async () => {
      const chain = Object.fromEntries(
        Array.from({ length: 50 }, (_, i) => [`s${i}`, i === 0 ? [] : [`s${i - 1}`]]),
      )
      const workflow = await create(newGraph({ ...chain, free: [] }))
      await discard(await claim(workflow, 's0'))
      const found = await find(workflow)
      expect(found).toMatchObject({ state: 'running', failed: 1, open: 1 })
      expect(found.steps.filter((step) => step.progress === 'cancelled')).toHaveLength(49)
      await complete(workflow, 'free')
      expect(await find(workflow)).toMatchObject({ state: 'failed', completed: 1, open: 0 })
      expect(ledger.known.counts('default')).toMatchObject({
        discarded: 1,
        completed: 1,
        available: 0,
      })
    })

    it('counts as failed when its job cannot be made, and leaves the ACK before it valid', async () => {
      const steps = [
        { id: 'a', ...job() },
        { id: 'b', ...job({ queue: 'dlx.refused' }), depends_on: ['a'] },
        { id: 'c', ...job(), depends_on: ['b'] },
      ]
      const workflow = await create(newWorkflow({ name: 'n', steps }))
      expect(await complete(workflow, 'a')).toMatchObject({ state: 'completed' })
      expect(await progress(workflow)).toEqual({ a: 'completed', b: 'failed', c: 'cancelled' })
      expect(await stepOf(workflow, 'b')).toMatchObject({ state: 'discarded', jobId: null })
      expect(JSON.parse((await stepOf(workflow, 'b')).error ?? '')).toMatchObject({
        code: 'invalid_request',
      })
      expect(await find(workflow)).toMatchObject({
        state: 'failed',
        completed: 1,
        failed: 1,
        open: 0,
      })
    })

    it("is named in the news of the workflow's end, even when another step ended last", async () => {
      const workflow = await create(newGraph({ a: [], b: [], c: [] }))
      await discard(await claim(workflow, 'a'))
      await ledger.cancel((await jobOf(workflow, 'b')).id, NOW)
      await complete(workflow, 'c')
      const failed = { id: 'a', type: 'a', state: 'discarded', error: LATER.error }
      expect(news.at(-1)).toMatchObject({ what: 'ended', workflow: { state: 'failed' }, failed })
    })

    it('ends the workflow at its creation when it is the first and its job cannot be made', async () => {
      const steps = [job({ queue: 'dlx.refused' }), job()]
      const workflow = await create(newWorkflow({ type: 'chain', steps }))
      expect(await progress(workflow)).toEqual({ 0: 'failed', 1: 'cancelled' })
      expect(await find(workflow)).toMatchObject({
        state: 'failed',
        failed: 1,
        open: 0,
        endedAt: NOW,
      })
      expect(told()).toEqual(['step 0', 'ended 0'])
    })

    it('stays failed when its dead letter is retried and completes', async () => {
      const workflow = await create(newGraph({ a: [], b: ['a'], free: [] }))
      const dead = await claim(workflow, 'a')
      await discard(dead)
      const { error, startedAt } = await stepOf(workflow, 'a')
      expect([error, startedAt]).toEqual([LATER.error, dead.startedAt])
      const revived = await revive(ledger, dead.id, NOW)
      expect(revived).toMatchObject({ generation: 1 })
      const [again] = await ledger.claim([jobMessage(dead.id, { generation: 1 })], TERMS)
      expect(again?.verdict).toBe('claimed')
      await ledger.complete(dead.id, {}, { now: NOW, result: '1' })
      expect(await progress(workflow)).toEqual({ a: 'failed', b: 'cancelled', free: 'started' })
      const kept = { state: 'discarded', result: null, error, startedAt, attempt: 1 }
      expect(await stepOf(workflow, 'a')).toMatchObject(kept)
      await complete(workflow, 'free')
      expect(await find(workflow)).toMatchObject({ state: 'failed', failed: 1, completed: 1 })
    })
  })

  it.each<[string, (id: string) => Promise<unknown>]>([
    [
      'another priority',
      (id) => ledger.prioritize(id, 5, { now: NOW, cause: { requestId: 'r' }, mayReplace: true }),
    ],
    [
      'a retry by hand',
      async (id) => {
        await ledger.claim([jobMessage(id)], TERMS)
        const wait = { dueAt: NOW + 99, delayMs: 99, retryQueueMs: null, isMessageBack: true }
        const failed = { ...LATER, to: 'retryable', ...wait } as const
        await failAttempt(ledger, id, fenceOf(await row(id)), failed)
        const bounds = { deadLettersOnly: false, sparesRetried: false, scope: null }
        const terms = { now: NOW, wall: NOW, cause: {}, maxMs: 10_000 }
        await ledger.bulk.act([id], { action: 'retry', states: ['retryable'], ...bounds }, terms)
      },
    ],
  ])(
    'passes on the result of a step whose job has begun a new generation by %s',
    async (_, steer) => {
      const workflow = await create(newGraph({ a: [], b: ['a'] }))
      const { id } = await jobOf(workflow, 'a')
      await steer(id)
      expect(await row(id)).toMatchObject({ state: 'available', generation: 1 })
      await ledger.claim(
        [jobMessage(id, { generation: 1, attempt: (await row(id)).attempt + 1 })],
        TERMS,
      )
      await ledger.complete(id, {}, { now: NOW + 9, result: '"kept"' })
      expect(await stepOf(workflow, 'a')).toMatchObject({ state: 'completed', result: '"kept"' })
      expect(JSON.parse((await jobOf(workflow, 'b')).envelope).parent_results).toEqual({
        a: 'kept',
      })
    },
  )

  it("a step shows the failed generation of its job, not the retried dead letter's start or error", async () => {
    const workflow = await create(newGraph({ a: [] }))
    const dead = await claim(workflow, 'a')
    await discard(dead)
    await revive(ledger, dead.id, NOW)
    const next = [jobMessage(dead.id, { generation: 1 })]
    const [again] = await ledger.claim(next, { ...TERMS, now: NOW + 100 })
    if (again?.verdict !== 'claimed') throw new Error('its next life has begun')
    const { error, startedAt } = await stepOf(workflow, 'a')
    expect([error, startedAt]).toEqual([LATER.error, dead.startedAt])
    const other = { now: NOW + 110, error: '{"code":"other","message":"of the next life"}' }
    const change = {
      ...LATER,
      ...other,
      to: 'discarded',
      isDeadLetter: true,
      copy: 'nack',
    } as const
    expect(await failAttempt(ledger, dead.id, fenceOf(again.job), change)).toMatchObject({
      generation: 1,
    })
    const kept = { error: LATER.error, startedAt: dead.startedAt, attempt: 1, state: 'discarded' }
    expect(await stepOf(workflow, 'a')).toMatchObject(kept)
  })

  describe('the error of a step', () => {
    it('remains after the dead letter is deleted', async () => {
      const workflow = await create(newGraph({ a: [], b: ['a'] }))
      const dead = await claim(workflow, 'a')
      await discard(dead)
      expect(await deleteDeadLetter(ledger, dead.id, NOW)).toBe(true)
      const { startedAt } = dead
      const kept = { jobId: dead.id, error: LATER.error, state: 'discarded', startedAt, attempt: 1 }
      expect(await stepOf(workflow, 'a')).toMatchObject(kept)
    })

    it('is replaced by a failure that is reported after the cancellation', async () => {
      const workflow = await create(newGraph({ a: [] }))
      const { id } = await jobOf(workflow, 'a')
      await ledger.claim([jobMessage(id, { attempt: 2 })], TERMS)
      await ledger.cancel(id, NOW)
      expect(JSON.parse((await stepOf(workflow, 'a')).error ?? '')).toMatchObject({
        code: 'unreported',
      })
      const failure = { code: 'boom', type: 'Boom', message: 'm', retryable: true }
      const said = { event: 'failed', failure, outcome: null } as const
      const late = { id, generation: 0, attempt: 1, workerId: 'n', said }
      await ledger.applyReports([late], { now: NOW, defaultLeaseMs: 9, random: () => 0 })
      expect(JSON.parse((await stepOf(workflow, 'a')).error ?? '')).toMatchObject({ code: 'boom' })
    })

    it('is complete for the first megabyte of errors, steps before callbacks, and shortened to code and message after that', async () => {
      const message = `${'é'.repeat(999)}😀${'m'.repeat(2_000)}`
      const error = JSON.stringify({ code: 'e', message, details: 'd'.repeat(250_000) })
      const whole = Math.floor(1_048_576 / Buffer.byteLength(error))
      const jobs = Array.from({ length: whole + 1 }, () => job())
      const callbacks = { on_failure: job(), on_complete: job() }
      const workflow = await create(newWorkflow({ type: 'batch', jobs, callbacks }))
      const ids = async () =>
        (await find(workflow)).steps.flatMap(({ id, jobId }) => (jobId === null ? [] : [id]))
      const fail = async (id: string) => {
        const change = {
          ...LATER,
          error,
          to: 'discarded',
          isDeadLetter: true,
          copy: 'nack',
        } as const
        const lease = await claim(workflow, id)
        await failAttempt(ledger, lease.id, fenceOf(lease), change)
      }
      const failed = await ids()
      for (const id of failed) await fail(id)
      for (const id of await ids()) if (!failed.includes(id)) await fail(id)
      const brief = JSON.stringify({ code: 'e', message: 'é'.repeat(999) })
      const texts = (await find(workflow)).steps.map((one) => one.error)
      const shown = texts.map((text) =>
        text === error ? 'whole' : text === brief ? 'brief' : text,
      )
      const expected = Array.from({ length: whole + 3 }, (_, i) => (i < whole ? 'whole' : 'brief'))
      expect(shown).toEqual(expected)
    })

    it('is null when a later attempt succeeded', async () => {
      const workflow = await create(newGraph({ a: [], b: ['a'] }))
      const first = await claim(workflow, 'a')
      const again = { ...LATER, to: 'available' } as const
      await failAttempt(ledger, first.id, fenceOf(first), again)
      const [second] = await ledger.claim([jobMessage(first.id, { attempt: 2 })], TERMS)
      expect(second?.verdict).toBe('claimed')
      await ledger.complete(first.id, {}, { now: NOW + 5, result: null })
      expect(await stepOf(workflow, 'a')).toMatchObject({ progress: 'completed', error: null })
    })
  })

  describe('a step with a unique policy', () => {
    const uniqueStep = (onConflict: string) => ({
      ...job({ type: 'u' }),
      unique: { key: ['type'], on_conflict: onConflict },
    })
    const chain = (onConflict: string) =>
      newWorkflow({ type: 'chain', steps: [job(), uniqueStep(onConflict), job()] })

    it.each(['reject', 'ignore'])(
      'fails with a duplicate error when another job holds its key: %s',
      async (onConflict) => {
        const first = await create(chain(onConflict))
        const second = await create(chain(onConflict))
        await complete(first, '0')
        expect(await complete(second, '0')).toMatchObject({ state: 'completed' })
        expect(await progress(first)).toEqual({ 0: 'completed', 1: 'started', 2: 'waiting' })
        expect(await progress(second)).toEqual({ 0: 'completed', 1: 'failed', 2: 'cancelled' })
        expect(JSON.parse((await stepOf(second, '1')).error ?? '')).toMatchObject({
          code: 'duplicate',
        })
        expect((await find(second)).state).toBe('failed')
      },
    )

    it('replaces the job that holds its key, and the step of that job fails', async () => {
      const first = await create(chain('replace'))
      const second = await create(chain('replace'))
      await complete(first, '0')
      const replaced = await jobOf(first, '1')
      await complete(second, '0')
      expect(await progress(second)).toEqual({ 0: 'completed', 1: 'started', 2: 'waiting' })
      expect(await progress(first)).toEqual({ 0: 'completed', 1: 'failed', 2: 'cancelled' })
      expect((await find(first)).state).toBe('failed')
      // The news of the replaced job's own workflow stand before those of the workflow that replaced it.
      expect(told().slice(-5)).toEqual(['step 1', 'ended 1', 'step 0', 'replaced u', 'born u'])
      const of = news.slice(-5).map(({ workflow }) => (workflow.id === first.id ? 1 : 2))
      expect(of).toEqual([1, 1, 2, 2, 2])
      const one = news.find(({ what }) => what === 'replaced')
      expect(one).toMatchObject({ cancelled: { job: { id: replaced.id } } })
      expect(newsIn(one && 'cancelled' in one ? [one.cancelled] : [])).toEqual([])
    })

    it('can replace a job of its own workflow', async () => {
      const jobs = [uniqueStep('replace'), uniqueStep('replace')]
      const workflow = await create(newWorkflow({ type: 'group', jobs }))
      expect(await progress(workflow)).toEqual({ 0: 'failed', 1: 'started' })
      await complete(workflow, '1')
      expect(await find(workflow)).toMatchObject({
        state: 'failed',
        completed: 1,
        failed: 1,
        open: 0,
      })
    })

    it('is cancelled by the replacing job when the replacement itself makes it begin', async () => {
      const [jobs, callbacks] = [[uniqueStep('replace')], { on_failure: uniqueStep('replace') }]
      const first = await create(newWorkflow({ type: 'batch', jobs, callbacks }))
      const second = await create(newWorkflow({ type: 'group', jobs }))
      expect(await progress(first)).toEqual({ 0: 'failed', on_failure: 'failed' })
      expect((await jobOf(first, 'on_failure')).state).toBe('cancelled')
      expect(await progress(second)).toEqual({ 0: 'started' })
      expect(ledger.known.counts('default')).toMatchObject({ available: 1, cancelled: 2 })
    })
  })

  it('a job that expires together with the one whose failure replaces it is replaced', async () => {
    const until = (second: number) => ({ expires_at: `2100-01-01T00:00:0${second}Z` })
    const unique = { key: ['type'], on_conflict: 'replace' }
    const callbacks = { on_failure: job({ type: 'u', unique }) }
    const batch = await create(newWorkflow({ type: 'batch', jobs: [job(until(1))], callbacks }))
    const steps = [job({ type: 'u', unique, ...until(2) }), job(until(3))]
    const group = await create(newWorkflow({ type: 'group', jobs: steps }))
    const terms = { now: NOW, wall: Date.parse('2100-01-01T00:00:04Z'), limit: 9 }
    expect(await ledger.expire(terms)).toHaveLength(2)
    expect(await jobOf(group, '0')).toMatchObject({ state: 'cancelled' })
    expect(await jobOf(group, '1')).toMatchObject({ state: 'discarded' })
    expect(await progress(batch)).toEqual({ 0: 'failed', on_failure: 'started' })
  })

  it('a step that is replaced in the commit in which it began has its callback at once', async () => {
    const jobs = [job({ type: 'a', options: REQUEST.options })]
    const batch = newWorkflow({ type: 'batch', jobs, callbacks: { on_failure: job() } })
    await Promise.all([ledger.workflows.create(batch, NOW), ledger.insert(rival(), NOW)])
    expect(await progress(batch)).toEqual({ 0: 'failed', on_failure: 'started' })
  })

  describe('the callbacks of a batch', () => {
    const callbacks = { on_complete: job({ type: 'x' }), on_success: job(), on_failure: job() }
    const batch = () => create(newWorkflow({ type: 'batch', jobs: [job(), job()], callbacks }))

    it('begin once, after the last job, when all jobs end in one commit', async () => {
      const workflow = await batch()
      const leases = [await claim(workflow, '0'), await claim(workflow, '1')]
      await Promise.all(
        leases.map(({ id }, i) => ledger.complete(id, {}, { now: NOW, result: String(i) })),
      )
      expect(await progress(workflow)).toMatchObject({
        on_complete: 'started',
        on_failure: 'cancelled',
      })
      expect(JSON.parse((await jobOf(workflow, 'on_success')).envelope).parent_results).toEqual([
        0, 1,
      ])
      expect(await find(workflow)).toMatchObject({
        state: 'running',
        total: 2,
        completed: 2,
        open: 0,
      })
      await complete(workflow, 'on_success')
      await complete(workflow, 'on_complete')
      expect(await find(workflow)).toMatchObject({ state: 'completed', completed: 2 })
    })

    it('start on_failure and cancel on_success when a job has failed', async () => {
      const workflow = await batch()
      await discard(await claim(workflow, '0'))
      await complete(workflow, '1', '7')
      expect(await progress(workflow)).toMatchObject({
        on_success: 'cancelled',
        on_failure: 'started',
      })
      expect(JSON.parse((await jobOf(workflow, 'on_failure')).envelope).parent_results).toEqual([
        null,
        7,
      ])
    })

    it('receive no result of a dead letter that was retried', async () => {
      const workflow = await batch()
      const dead = await claim(workflow, '0')
      await discard(dead)
      await revive(ledger, dead.id, NOW)
      await ledger.claim([jobMessage(dead.id, { generation: 1 })], TERMS)
      await ledger.complete(dead.id, {}, { now: NOW, result: '"late"' })
      await complete(workflow, '1', '7')
      expect(JSON.parse((await jobOf(workflow, 'on_failure')).envelope).parent_results).toEqual([
        null,
        7,
      ])
    })
  })

  describe('cancelling a workflow', () => {
    it('does not count callbacks that never began as cancelled steps', async () => {
      const callbacks = { on_complete: job(), on_failure: job() }
      const batch = await create(newWorkflow({ type: 'batch', jobs: [job(), job()], callbacks }))
      await complete(batch, '0')
      expect(await ledger.workflows.cancel(batch.id, NOW)).toMatchObject({ stepsCancelled: 1 })
    })

    it('ends all open jobs and steps, and no further step begins', async () => {
      const workflow = await create(newGraph({ ...DIAMOND, e: [] }))
      await complete(workflow, 'a')
      const active = await claim(workflow, 'b')
      const cancelled = await ledger.workflows.cancel(workflow.id, NOW + 7)
      expect(cancelled).toMatchObject({
        workflow: { state: 'cancelled', completed: 1, endedAt: NOW + 7, open: 0 },
        stepsCancelled: 4,
      })
      const jobs = cancelled === 'stale' ? [] : cancelled.jobs
      expect(jobs.map(({ job: one, previousState }) => [one.type, previousState])).toEqual([
        ['b', 'active'],
        ['c', 'available'],
        ['e', 'available'],
      ])
      for (const { job: one } of jobs)
        expect(one).toMatchObject({ state: 'cancelled', cancelledAt: NOW + 7 })
      expect(jobs[0]?.job.outbox).not.toBeNull()
      const never = { state: 'cancelled', endedAt: NOW + 7, jobId: null }
      expect(await stepOf(workflow, 'd')).toMatchObject(never)
      expect(await ledger.complete(active.id, {}, { now: NOW, result: null })).toEqual(
        await staleAt(ledger, active.id),
      )
      expect(ledger.known.counts('default')).toMatchObject({
        available: 0,
        active: 0,
        cancelled: 3,
      })
      expect(await ledger.workflows.cancel(workflow.id, NOW)).toBe('stale')
      expect(await ledger.workflows.cancel('nobody', NOW)).toBe('stale')
      expect(news.map(({ what }) => what)).not.toContain('ended')
    })

    it('leaves it cancelled when an ACK comes before or after it in the same group commit', async () => {
      for (const cancelFirst of [true, false]) {
        const workflow = await create(newGraph({ a: [], b: ['a'] }))
        const { id } = await claim(workflow, 'a')
        const acts = [
          () => ledger.workflows.cancel(workflow.id, NOW),
          () => ledger.complete(id, {}, { now: NOW, result: null }),
        ]
        await Promise.all((cancelFirst ? acts : acts.reverse()).map((act) => act()))
        const a = cancelFirst ? 'cancelled' : 'completed'
        expect(await progress(workflow)).toEqual({ a, b: 'cancelled' })
        expect(await find(workflow)).toMatchObject({
          state: 'cancelled',
          completed: cancelFirst ? 0 : 1,
        })
      }
    })
  })

  describe('the list of workflows', () => {
    it('returns one state or all, newest first, with totals', async () => {
      const done = await create(newGraph({ a: [] }))
      const running = await create(newGraph({ a: [] }))
      await complete(done, 'a')
      const idsOf = async (query: object) => {
        const { workflows, total } = await ledger.read.workflows.list({
          state: null,
          limit: 9,
          offset: 0,
          ...query,
        })
        return [workflows.map(({ id }) => id), total]
      }
      expect(await idsOf({})).toEqual([[running.id, done.id], 2])
      expect(await idsOf({ offset: 1 })).toEqual([[done.id], 2])
      expect(await idsOf({ state: 'running' })).toEqual([[running.id], 1])
      expect(await idsOf({ state: 'completed', limit: 1 })).toEqual([[done.id], 1])
      expect(await idsOf({ state: 'failed' })).toEqual([[], 0])
    })
  })

  describe('retention of workflows', () => {
    const LONG_AFTER = NOW + 1_000
    const ALL = {
      ...{ completed: LONG_AFTER, cancelled: LONG_AFTER, discarded: LONG_AFTER },
      ...{ deadLetters: LONG_AFTER, withdrawn: LONG_AFTER },
    }
    const prune = () => ledger.prune(ALL, LONG_AFTER, 100)

    it('keeps a job whose result a running workflow still needs', async () => {
      const workflow = await create(newGraph({ a: [], b: [], c: ['a', 'b'] }))
      await complete(workflow, 'a', '"kept"')
      const plain = await pushed(ledger)
      await ledger.claim([jobMessage(plain.id)], TERMS)
      await ledger.complete(plain.id, {}, { now: NOW, result: null })
      for (const id of [plain.id, (await jobOf(workflow, 'a')).id]) ledger.messageReturned(id, 0)
      await settleLazily(ledger)
      expect(await prune()).toBe(1)
      await complete(workflow, 'b')
      expect(JSON.parse((await jobOf(workflow, 'c')).envelope).parent_results).toEqual({
        a: 'kept',
        b: null,
      })
    })

    it('starts at the corrected time for a workflow that ended while the clock was ahead', async () => {
      const workflow = await create(newGraph({ a: [] }))
      await complete(workflow, 'a')
      const before = NOW - 1_000
      expect(await ledger.boundEnds(before, 100)).toBe(1)
      expect(await ledger.boundEnds(before, 100)).toBe(0)
      expect(await ledger.prune({ ...ALL, completed: before + 1 }, before, 100)).toBeGreaterThan(0)
      expect(await ledger.read.workflows.find(workflow.id)).toBeNull()
    })

    it('starts at the corrected time for the jobs of such a workflow too', async () => {
      const workflow = await create(newGraph({ a: [] }))
      const { id } = await jobOf(workflow, 'a')
      await complete(workflow, 'a')
      ledger.messageReturned(id, 0)
      await settleLazily(ledger)
      const before = NOW - 1_000
      await ledger.boundEnds(before, 100)
      for (const _ of ['the workflow', 'its job'])
        await ledger.prune({ ...ALL, completed: before + 1 }, before, 100)
      expect(await ledger.read.find(id)).toBeNull()
    })

    it('removes an ended workflow, and its jobs in the next run', async () => {
      const workflow = await create(newGraph({ a: [], b: ['a'] }))
      const { id } = await jobOf(workflow, 'a')
      await complete(workflow, 'a')
      await complete(workflow, 'b')
      ledger.messageReturned(id, 0)
      await settleLazily(ledger)
      expect(await ledger.prune({ ...ALL, completed: NOW + 5 }, NOW, 100)).toBe(0)
      // Four rows: the workflow, its two steps, and the node that joins them.
      expect(await prune()).toBe(4)
      expect(await ledger.read.workflows.find(workflow.id)).toBeNull()
      expect(await ledger.read.workflows.list({ state: null, limit: 9, offset: 0 })).toEqual({
        workflows: [],
        total: 0,
      })
      expect(await prune()).toBe(1)
      expect(await ledger.read.find(id)).toBeNull()
    })

    it('removes workflows oldest first, up to its limit', async () => {
      const [older, newer] = [newGraph({ a: [] }), newGraph({ a: [] })]
      for (const workflow of [older, newer]) await complete(await create(workflow), 'a')
      const left = async () =>
        (await ledger.read.workflows.list({ state: null, limit: 9, offset: 0 })).total
      await ledger.prune(ALL, LONG_AFTER, 1)
      expect(await left()).toBe(1)
      expect(await stepOf(newer, 'a')).toMatchObject({ progress: 'completed' })
      await ledger.prune(ALL, LONG_AFTER, 1)
      expect(await left()).toBe(0)
    })
  })
}

/** The id of the step, the type of the job, or the workflow's final state when no step failed. */
function nameIn(news: WorkflowNews): string {
  switch (news.what) {
    case 'step':
      return news.step.id
    case 'ended':
      return news.failed?.id ?? news.workflow.state
    case 'born':
      return news.job.type
    case 'replaced':
      return news.cancelled.job.type
  }
}
