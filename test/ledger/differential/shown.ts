/** What a ledger shows, in an order that is not left open. */
import type { JobFilter } from '../../../src/job/search/filter.ts'
import { ANY_JOB } from '../../../src/job/search/filter.ts'
import { WORKFLOW_STATES } from '../../../src/job/workflow/workflow.ts'
import type { Known } from '../../../src/ledger/known.ts'
import type { Ledger } from '../../../src/ledger/ledger.ts'
import { inOrder } from '../../support/broker/order.ts'
import { NOW } from '../harness.ts'
import { byId, ENTRY, KEY, MANY, QUEUE, QUEUES, SCHEMA } from './call.ts'

/** What a ledger knows without a read. */
export function knownOf({ known }: Ledger, now: number): unknown {
  return {
    queues: known.queues().map((queue) => ({ queue, ...queueOf(known, queue.name, now) })),
    stale: inOrder(known.staleCopies().keys()),
    lost: inOrder(known.lost.all()),
    unwritten: UNWRITTEN.filter((name) => known.unwritten.has(name)),
    owedPauses: inOrder(known.pauses.owed()),
    schemas: [0, 1, 2].map((n) => ({ registration: known.schemas.registration(SCHEMA(n)) })),
    isAnyWorkflow: known.workflows.isAnyRunning(),
    maintenance: known.maintenance.current(),
    deadLetters: known.deadLetterCount(),
    fault: known.fault(),
  }
}

/** What goes with these jobs, and what is no job. */
export async function seenOf({ read }: Ledger, about: About): Promise<unknown> {
  const notes = about.ids.map(async (id) => ({
    progress: await read.progress.find(id),
    checkpoint: await read.checkpoints.find(id),
  }))
  return {
    notes: await Promise.all(notes),
    entries: await Promise.all([0, 1].map((n) => read.cron.find(ENTRY(n)))),
    workflows: await Promise.all(about.workflows.map((id) => read.workflows.find(id))),
    active: await Promise.all([0, 1].map((n) => read.concurrency.active(KEY(n)))),
    keys: await keysOf(read),
  }
}

async function keysOf({ concurrency }: Ledger['read']): Promise<object> {
  const all = await concurrency.keys('', MANY)
  const standings = await concurrency.standings([...all, 'none'])
  return {
    all,
    first: await concurrency.keys('', 1),
    behind: await concurrency.keys(KEY(0), MANY),
    none: await concurrency.keys(KEY(1), MANY),
    // Of which active job the limit is, if no other has one, is left open.
    standings: byId(
      [...standings].map(([key, { limit, active, waiting }]) => {
        return { key, active, waiting, ...((waiting > 0 || active === 0) && { limit }) }
      }),
      ({ key }) => key,
    ),
  }
}

/** The newest jobs and workflows of a ledger. */
export interface About {
  ids: readonly string[]
  workflows: readonly string[]
}

const UNWRITTEN = [...QUEUES, ...[0, 1, 2, 3].map((n) => `queue-${n}`)]

function queueOf(
  { queueSettings, idle, pauses, traffic, ...known }: Known,
  queue: string,
  now: number,
) {
  return {
    counts: known.counts(queue),
    claimable: known.claimable(queue),
    held: known.held(queue),
    deadLetters: known.deadLetterCount(queue),
    lastHour: traffic.lastHour(queue, now),
    wholeMinutes: traffic.wholeMinutes(queue, now, 5),
    settings: queueSettings.of(queue),
    pausedSince: pauses.since(queue),
    isIdle: idle.isIdle(queue),
    isEmpty: idle.isEmpty(queue),
  }
}

const FILTERS: readonly Partial<JobFilter>[] = [
  {},
  { states: ['available', 'retryable'] },
  { queues: [QUEUE(0)], types: [{ text: 'm', isPrefix: true }] },
  { isDeadLetter: true },
  { errorCode: 'e' },
  { workerId: 'native-1', priority: 0 },
  { ended: { from: NOW, until: NOW + 60_000 } },
]
const ORDERS = ['created_at', 'scheduled_at', 'priority', 'updated_at'] as const

/** What is found, in the order of the lists where that is not open. */
async function searchesOf({ read }: Ledger, now: number): Promise<object> {
  const oldest = await read.search.oldest(QUEUES, now, now)
  const lists = FILTERS.map(async (given, i) => {
    const filter = { ...ANY_JOB, ...given }
    const order = ORDERS[i % ORDERS.length] ?? 'created_at'
    const page = { order, isAscending: i % 2 === 0, after: null, offset: 0, limit: MANY }
    const { jobs } = await read.search.page(filter, { ...page, isWhole: i % 3 === 0 })
    const { found } = await read.search.ids(filter, null, MANY)
    return {
      jobs,
      count: await read.search.count(filter, MANY),
      ids: found.map(({ id }) => id),
    }
  })
  return { oldest, lists: await Promise.all(lists) }
}

/** What can be seen at the end. */
export async function allOf(ledger: Ledger, about: About, now: number): Promise<unknown> {
  return {
    known: knownOf(ledger, now),
    seen: await seenOf(ledger, about),
    rows: await Promise.all(about.ids.map((id) => ledger.read.find(id))),
    ...(await jobsOf(ledger, about.ids, now)),
    ...(await recordsOf(ledger, now)),
    ...(await recurringOf(ledger, now)),
    ...(await queuesOf(ledger, now)),
    ...(await searchesOf(ledger, now)),
  }
}

async function jobsOf({ read }: Ledger, ids: readonly string[], now: number): Promise<object> {
  const { cancelled, truncated } = await read.tombstones(QUEUES, MANY)
  const owed = await read.outboxPage(0, MANY)
  return {
    histories: await Promise.all(ids.map((id) => read.history.find(id))),
    standings: byId([...(await read.standings(ids)).values()], ({ id }) => id),
    owed,
    owedRows: await read.owed(owed.map(({ outbox }) => outbox)),
    owedMessages: await read.owedMessages(MANY),
    cancelled: byId(cancelled, ({ id }) => id),
    truncated,
    tombstoned: await Promise.all(ids.map((id) => read.isTombstoned(id, QUEUE(0)))),
    active: await read.activeByWorker(MANY),
    leased: await Promise.all(
      ['worker-1', 'native-1'].map(async (worker) =>
        inOrder((await read.leasedTo(worker, 0, MANY)).ids),
      ),
    ),
    dead: await read.deadLetterStats([]),
    remembered: await Promise.all([0, 1, 2].map((n) => read.idempotency.find(`key-${n}`, now))),
  }
}

async function recordsOf({ read }: Ledger, now: number): Promise<object> {
  const page = { limit: MANY, offset: 0 }
  const states = [null, ...WORKFLOW_STATES].map((state) => read.workflows.list({ state, ...page }))
  return {
    operations: await read.bulk.list(page),
    schemas: await read.schemas.list(MANY, 0),
    found: await Promise.all([0, 1, 2].map((n) => read.schemas.find(SCHEMA(n)))),
    audit: await read.audit.list({ before: null, limit: MANY, key: null }),
    ofKey: await read.audit.list({ before: null, limit: MANY, key: 'key-1' }),
    epochs: await read.epochs.all(),
    seenAt: await read.epochs.seenAt(),
    workflows: await Promise.all(states),
    now,
  }
}

async function recurringOf({ read }: Ledger, now: number): Promise<object> {
  const page = { limit: MANY, offset: 0 }
  return {
    entries: await read.cron.list(page),
    due: await read.cron.due(now, MANY),
    ahead: await read.cron.ahead(now, 0, MANY),
    releasable: await read.cron.releasable('', MANY),
    runs: await Promise.all([0, 1].map((n) => read.cron.runs(ENTRY(n), page))),
  }
}

async function queuesOf({ read, known }: Ledger, now: number): Promise<object> {
  const names = known.queues().map(({ name }) => name)
  const spans = [null, ...QUEUES].flatMap((queue) => [
    { queue, span: 'minute', from: now - 3_600_000, to: now + 60_000 } as const,
    { queue, span: 'hour', from: now - 7_200_000, to: now + 3_600_000 } as const,
  ])
  return {
    retryQueues: byId(known.retryQueues(), (one) => `${one.queue} ${one.delayMs}`),
    identities: await Promise.all(names.map((name) => read.queueIdentity(name))),
    traffic: await Promise.all(spans.map((query) => read.traffic.history(query))),
  }
}
