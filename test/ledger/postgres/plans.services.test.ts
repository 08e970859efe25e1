import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { ANY_JOB, type JobFilter } from '../../../src/job/search/filter.ts'
import { Connection, type Statement } from '../../../src/ledger/postgres/connection.ts'
import type { PostgresLedger } from '../../../src/ledger/postgres/ledger.ts'
import { migrate } from '../../../src/ledger/postgres/migrations.ts'
import { openPostgresLedger } from '../../../src/ledger/postgres/open.ts'
import { schemaOf } from '../../../src/ledger/postgres/schema.ts'
import type { JobOrder } from '../../../src/ledger/search.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import { newGraph } from '../../support/gateway/workflows.ts'
import { SILENT } from '../../support/time/silent.ts'
import {
  FAILED,
  failAttempt,
  fenceOf,
  fetched,
  jobMessage,
  NOW,
  pushed,
  TERMS,
} from '../harness.ts'
import { addressOf, connectTo, rowsOf, sharedPostgres } from './server.ts'

/** Enough rows for the planner to prefer an index, where there is one that helps. */
const ROWS = 60_000
/** A plan may read these as a whole: they have a few rows each. */
const LARGE = [
  ...['jobs', 'job_bodies', 'state_counts', 'idempotency_keys', 'audit', 'traffic'],
  ...['workflows', 'workflow_steps', 'workflow_feeds', 'workflow_sources', 'workflow_errors'],
]

const filled = (schema: string): string[] => [
  `INSERT INTO ${schema}.jobs (id, generation, state, attempt, queue, type, priority, max_attempts,
     timeout_ms, message_out, holder, worker_id, lease_ms, lease_expires_at, due_at, created_at,
     enqueued_at, activated_at, started_at, completed_at, discarded_at, is_dead_letter,
     dead_letter_copied, ended_at, history, error_code, outbox)
   SELECT 'job' || i, 0, s, 1, 'q' || i % 7, 'type.' || i % 40, 0, 3, 1000, s <> 'completed',
     CASE s WHEN 'active' THEN 'gateway' END, CASE s WHEN 'active' THEN 'w' || i % 20 END,
     CASE s WHEN 'active' THEN 30000 END, CASE s WHEN 'active' THEN ${NOW} + 30000 + i END,
     CASE WHEN s IN ('scheduled', 'retryable') THEN ${NOW} + i END, ${NOW} + i, ${NOW} + i + i % 3 * 800,
     NULL, NULL, CASE s WHEN 'completed' THEN ${NOW} + i END, CASE s WHEN 'discarded' THEN ${NOW} + i END,
     s = 'discarded', false, CASE WHEN s IN ('completed', 'discarded') THEN ${NOW} + i END, '',
     CASE s WHEN 'discarded' THEN 'e' || i % 5 ELSE '' END, CASE WHEN i % 1000 = 0 THEN i END
   FROM (SELECT i, CASE WHEN i % 10 < 7 THEN 'completed' WHEN i % 10 = 7 THEN 'available'
       WHEN i % 40 = 8 THEN 'active' WHEN i % 40 = 18 THEN 'scheduled' WHEN i % 40 = 28 THEN 'retryable'
       ELSE 'discarded' END AS s FROM generate_series(1, ${ROWS}) AS i) AS made`,
  `INSERT INTO ${schema}.job_bodies (id, envelope, error)
   SELECT id, '{"args":[]}', CASE WHEN error_code <> '' THEN '{"code":"' || error_code || '"}' END
   FROM ${schema}.jobs`,
  `INSERT INTO ${schema}.queues (name, created_at) SELECT DISTINCT queue, 1::bigint FROM ${schema}.jobs`,
  `INSERT INTO ${schema}.state_counts
   SELECT slot, queue, state, count(*) FROM ${schema}.jobs, generate_series(5, 5) AS slot GROUP BY 1, 2, 3
   UNION ALL SELECT 5, queue, 'dead_letter', count(*) FROM ${schema}.jobs WHERE is_dead_letter GROUP BY 2
   UNION ALL SELECT 5, 'gone' || i, 'completed', 1 FROM generate_series(1, 3000) AS i`,
  `INSERT INTO ${schema}.idempotency_keys (key, fingerprint, ids, existing, created_at)
   SELECT 'key' || i, 'f', '["job' || i || '"]', '[]', ${NOW} + i FROM generate_series(1, ${ROWS}) AS i`,
  `INSERT INTO ${schema}.audit
   SELECT i, ${NOW} + i, 'r', 'key' || i % 9, NULL, NULL, 'POST', '/', '/', 200
   FROM generate_series(1, 10000) AS i`,
  `INSERT INTO ${schema}.traffic
   SELECT 1, 60000, ${NOW} / 60000 - i / 20, 'q' || i % 20, 1, 1, 0, 0, 1, 5, 1, 5, '5:1', '5:1'
   FROM generate_series(1, ${ROWS / 3}) AS i`,
  `INSERT INTO ${schema}.workflows (id, type, state, total, open, completed, failed, created_at, ended_at, settings, nodes)
   SELECT 'w' || i, 'dag', CASE WHEN i % 2 = 0 THEN 'completed' ELSE 'running' END, 9, 0, 9, 0, ${NOW} + i,
     CASE WHEN i % 2 = 0 THEN ${NOW} + i END, '{}', 10 FROM generate_series(1, 2000) AS i`,
  `INSERT INTO ${schema}.workflow_steps (key, progress, rule, pending, completed, failed, cancelled, is_callback, type)
   SELECT 'w' || i || '/' || lpad(n::text, 7, '0'), 'waiting', 'completed', 1, 0, 0, 0, false, 't'
   FROM generate_series(1, 2000) AS i, generate_series(0, 9) AS n`,
  `INSERT INTO ${schema}.workflow_feeds SELECT key, '[]' FROM ${schema}.workflow_steps`,
  `INSERT INTO ${schema}.workflow_sources SELECT key, '[]', '[]', '{}' FROM ${schema}.workflow_steps`,
  `INSERT INTO ${schema}.workflow_errors SELECT key, '{}' FROM ${schema}.workflow_steps`,
  'VACUUM ANALYZE',
]

const SCAN = new RegExp(`Seq Scan on (${LARGE.join('|')})\\b`)

const LAST = {
  order: 'created_at',
  isAscending: false,
  after: null,
  offset: 0,
  limit: 1,
  isWhole: false,
} as const
const withWorkflow = (workflowId: string) => ({
  ...ANY_JOB,
  workflowId,
  states: ['available'] as const,
})

/** Whatever the ledger asks is explained as it was asked. */
describe('on a large table, no statement reads the whole of it', () => {
  const url = sharedPostgres()
  const prefix = `p${randomUUID().slice(0, 8)}`
  const schema = schemaOf(prefix)
  const asked = new Map<string, Statement>()
  let admin: Connection
  let ledger: PostgresLedger

  beforeAll(async () => {
    admin = await connectTo(url())
    await migrate(admin, schema)
    for (const text of filled(schema)) await rowsOf(admin, text)
    ledger = await openPostgresLedger({ address: addressOf(url()), prefix, logger: SILENT })
    const ask = Connection.prototype.ask
    vi.spyOn(Connection.prototype, 'ask').mockImplementation(function (this: Connection, all) {
      for (const one of all) asked.set(one.text, one)
      return ask.call(this, all)
    })
  }, 120_000)

  afterAll(async () => {
    vi.restoreAllMocks()
    await ledger.close()
    await rowsOf(admin, `DROP SCHEMA ${schema} CASCADE`)
    await admin.close()
  })

  /** The plans of what `work` asks, by their statements; each statement once. */
  const plansOf = async (work: () => Promise<unknown>): Promise<Map<string, string>> => {
    asked.clear()
    await work()
    const plans = new Map<string, string>()
    for (const { text, values } of [...asked.values()]) {
      if (!/^\s*(SELECT|WITH|INSERT|UPDATE|DELETE)/.test(text) || text.includes('take_slot'))
        continue
      const plan = await rowsOf(admin, `EXPLAIN ${text}`, [...(values ?? [])])
      plans.set(text, plan.map((line) => line['QUERY PLAN']).join('\n'))
    }
    return plans
  }

  const expectIndexed = async (work: () => Promise<unknown>): Promise<string> => {
    const plans = await plansOf(work)
    expect(plans.size).toBeGreaterThan(0)
    for (const [text, plan] of plans) {
      const scans = LARGE.filter((table) => new RegExp(`Seq Scan on ${table}\\b`).test(plan))
      expect(scans, `${text}\n${plan}`).toEqual([])
    }
    return [...plans.values()].join('\n')
  }

  it('tells a plan that does', async () => {
    const plans = await plansOf(() =>
      rowsOf(admin, `SELECT count(*) FROM ${schema}.jobs WHERE priority = 3`),
    )
    expect([...plans.values()].join()).toContain('Seq Scan on jobs')
  })

  const FILTERS: [string, Partial<JobFilter>, string][] = [
    ['a state', { states: ['available'] }, 'jobs_search'],
    ['types', { types: [{ text: 'type.1', isPrefix: true }] }, 'jobs_search'],
    [
      'state, queue and type',
      { states: ['completed'], queues: ['q1'], types: [{ text: 'type.3', isPrefix: false }] },
      'jobs_search',
    ],
    ['creation', { created: { from: NOW + 5, until: NOW + 900 } }, 'jobs_search'],
    ['ids', { ids: ['job1', 'job2'] }, 'jobs_pkey'],
    ['an error', { errorCode: 'e1' }, 'jobs_error'],
    ['a workflow', { workflowId: 'w' }, 'jobs_pkey'],
    ['a worker', { workerId: 'w1', states: ['active'] }, 'jobs_search'],
    ['tags', { text: { ...ANY_JOB.text, tags: ['x'] }, states: ['available'] }, 'job_bodies_pkey'],
    ['args', { text: { ...ANY_JOB.text, args: [1] }, states: ['active'] }, 'job_bodies_pkey'],
    ['dead letters', { isDeadLetter: true, queues: ['q2'] }, 'jobs_search'],
    ['few that have ended', { ended: { from: NOW + ROWS - 50, until: null } }, 'jobs_prunable'],
    [
      'steps that have ended',
      { ended: { from: NOW + ROWS - 50, until: null } },
      'jobs_ended_steps',
    ],
    ['strays that have ended', { ended: { from: NOW + ROWS - 50, until: null } }, 'jobs_stray'],
    ['many that have ended', { ended: { from: NOW, until: null } }, 'jobs_search'],
    ['a cron entry', { cron: 'nightly' }, 'jobs_of_cron'],
    ['a priority', { priority: 7 }, 'jobs_search'],
    ['jobs that are not held', { isHeld: false, queues: ['q1'] }, 'jobs_search'],
    ['a worker in any state', { workerId: 'w1' }, 'jobs_search'],
    ['time in the queue', { enqueued: { from: NOW + 50, until: null } }, 'jobs_search'],
  ]

  it.each(FILTERS)('in a search by %s', async (_, given, index) => {
    const filter = { ...ANY_JOB, ...given }
    const page = { order: 'created_at', after: null, offset: 0, limit: 50, isWhole: true } as const
    const plans = await expectIndexed(async () => {
      for (const isAscending of [true, false])
        await ledger.read.search.page(filter, { ...page, isAscending })
      await ledger.read.search.count(filter, 10_000)
      await ledger.read.search.ids(filter, null, 5)
    })
    expect(plans).toContain(index)
  })

  it('in a search by any two of these', async () => {
    for (const [i, [name, given]] of FILTERS.entries()) {
      for (const [other, more] of FILTERS.slice(i + 1)) {
        const filter = { ...ANY_JOB, ...given, ...more }
        const plans = await plansOf(() => ledger.read.search.page(filter, LAST))
        for (const [text, plan] of plans)
          expect(plan, `${name} and ${other}: ${text}`).not.toMatch(SCAN)
      }
    }
  }, 240_000)

  it.each<[JobOrder, Partial<JobFilter>, string]>([
    ['scheduled_at', { states: ['scheduled', 'retryable'] }, 'jobs_due'],
    ['discarded_at', { isDeadLetter: true }, 'jobs_died'],
    ['discarded_at', { isDeadLetter: true, queues: ['q1', 'q2'] }, 'jobs_dead'],
    ['priority', { states: ['available'] }, 'jobs_search'],
    ['updated_at', { queues: ['q3'] }, 'jobs_search'],
  ])('in a list by %s', async (order, given, index) => {
    const page = { order, after: [NOW + 30_000, 30_000], offset: 0, limit: 50 } as const
    const plans = await expectIndexed(async () => {
      for (const isAscending of [true, false])
        await ledger.read.search.page(
          { ...ANY_JOB, ...given },
          { ...page, isAscending, isWhole: false },
        )
    })
    expect(plans).toMatch(new RegExp(`${index}\\b`))
  })

  it('in reads of the oldest jobs and of numbers', async () => {
    const plans = await expectIndexed(async () => {
      await ledger.read.search.oldest(['q1', 'q2'], NOW + 1_000, NOW + 1_000)
      await ledger.read.search.priorities('q1')
      await ledger.read.deadLetterStats([])
      await ledger.read.deadLetterStats(['q1'])
    })
    for (const index of ['jobs_search', 'jobs_late', 'jobs_due', 'jobs_died'])
      expect(plans).toContain(index)
  })

  it('in other reads', async () => {
    await expectIndexed(async () => {
      await ledger.read.find('job1')
      await ledger.read.standing('job1')
      await ledger.read.standings(['job1', 'job2'])
      await ledger.read.activeByWorker(100)
      await ledger.read.leasedTo('w1', NOW, 50)
      await ledger.read.outboxPage(0, 50)
      await ledger.read.owedMessages(1_000)
      await ledger.read.owedMessages(1_000, { queues: ['q1'], ofCancels: false })
      await ledger.read.tombstones(['q1'], 10)
      await ledger.read.concurrency.keys('', 10)
      await ledger.read.concurrency.standings(['k'])
      await ledger.read.progress.present(['job1', 'job2'])
    })
  })

  it('in the life of a job', async () => {
    await expectIndexed(async () => {
      const done = await fetched(ledger, { queue: 'q1' })
      await ledger.extend([done.id], {
        now: NOW,
        workerId: 'worker-1',
        leaseMs: null,
        queue: null,
      } as never)
      await ledger.complete(done.id, {}, { now: NOW, result: null })
      const failed = await fetched(ledger, { queue: 'q1' })
      await failAttempt(ledger, failed.id, fenceOf(failed), {
        ...FAILED,
        to: 'discarded',
        isDeadLetter: true,
        copy: 'nack',
      })
      const { id, outbox } = await pushed(ledger)
      ledger.confirmed(outbox)
      await ledger.cancel(id, NOW)
      await ledger.insertAll([newJob({ queue: 'q1' }), newJob({ queue: 'q2' })], NOW)
      await ledger.claim([jobMessage('job7'), jobMessage('job17')], TERMS)
    })
  })

  it('in what is kept of queues, requests and audit', async () => {
    const plans = await expectIndexed(async () => {
      const request = { key: 'key7', fingerprint: 'f' }
      await ledger.insert(newJob({ queue: 'q1' }), NOW, { request })
      await ledger.read.idempotency.find('key8', NOW)
      await ledger.idempotency.prune(NOW, 10)
      const now = NOW + 10 * 60_000
      await ledger.insert(newJob({ queue: 'q1' }), now)
      await ledger.read.traffic.history({ queue: 'q1', span: 'minute', from: NOW, to: now })
      await ledger.read.traffic.history({ queue: null, span: 'hour', from: NOW, to: now })
      const record = { at: NOW, requestId: 'r', key: 'key1', role: null, address: null }
      await ledger.audit.append({ ...record, method: 'POST', route: '/', path: '/', status: 1 })
      await ledger.read.audit.list({ before: 9_000, limit: 10, key: null })
      await ledger.read.audit.list({ before: 9_000, limit: 10, key: 'key3' })
      const span = { after: NOW, before: NOW + 1_000 }
      await ledger.read.lostMessages.list('q1', span, 10)
      await ledger.lostMessages.rearm('q1', span)
      await ledger.recordQueue('unused', NOW)
      await ledger.pauses.pause('unused', NOW)
      await ledger.idle.look(NOW, 1, () => false)
      expect(await ledger.idle.delete('unused')).toBe(true)
    })
    for (const index of ['idempotency_keys_pkey', 'audit_of_key', 'traffic_pkey', 'traffic_at'])
      expect(plans).toContain(index)
  })

  it('in the life of a workflow', async () => {
    await expectIndexed(async () => {
      const { workflows } = ledger
      const graph = newGraph({ a: [], b: ['a'], c: ['a'], d: ['b', 'c'], free: [] })
      await workflows.create(graph, NOW)
      const endOf = async (step: string) => {
        const { steps } = (await ledger.read.workflows.find(graph.id)) ?? { steps: [] }
        const id = steps.find((one) => one.id === step)?.jobId ?? ''
        await ledger.claim([jobMessage(id)], TERMS)
        return await ledger.complete(id, {}, { now: NOW, result: '"x"' })
      }
      await endOf('a')
      await endOf('b')
      await ledger.cancel(
        (await ledger.read.search.page(withWorkflow(graph.id), LAST)).jobs[0]?.id ?? '',
        NOW,
      )
      const other = newGraph({ a: [], b: ['a'] })
      await workflows.create(other, NOW)
      await workflows.cancel(other.id, NOW)
      await ledger.read.workflows.list({ state: 'running', limit: 20, offset: 20 })
      await ledger.read.workflows.list({ state: null, limit: 20, offset: 20 })
    })
  })

  it('in what runs by the clock', async () => {
    await expectIndexed(async () => {
      await ledger.promote(NOW + 50, NOW + 50, 10)
      await ledger.sendAhead(NOW + 100, 10)
      await ledger.read.expiring(NOW, 10)
      await ledger.expire({ now: NOW, wall: NOW, limit: 10 } as never)
      await ledger.endOverdue({ now: NOW + 40_000, limit: 10, which: 'all' }, () => null)
      await ledger.extendLeases(NOW)
      await ledger.boundWaits(NOW)
      await ledger.boundEnds(NOW + 1_000_000, 10)
      const at = NOW + 1_000
      const ends = { completed: at, cancelled: at, discarded: at, deadLetters: at, withdrawn: at }
      await ledger.prune(ends, NOW, 10)
      await ledger.pruneDeadLetters('q1', 10, NOW, 10)
    })
  })
})
