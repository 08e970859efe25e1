/** The calls that are about queues, and about all else that is no job. */
import type { AuditRecord } from '../../../src/ledger/audit.ts'
import type { SchemaRecord } from '../../../src/ledger/schemas.ts'
import { settleLazily } from '../harness.ts'
import { type Given, MANY, QUEUE, SCHEMA, verbs } from './call.ts'
import { requestOf } from './made.ts'

const RETRIES = [null, { max_attempts: 7, initial_interval: 'PT2S' }, { max_attempts: 1 }]
const MOST_SCHEMAS = 2

/** One of those with jobs, or one that has none. */
const NAME = ({ call: { n, job } }: Given) => (n % 3 === 0 ? `queue-${n % 4}` : QUEUE(job))

const SPAN = ({ call: { n }, now }: Given) => ({
  after: n % 2 === 0 ? null : now - 1_000,
  before: n % 3 === 0 ? now : now - 30,
})

function schemaOf({ call: { n }, now }: Given): SchemaRecord {
  const version = n % 2 === 0 ? n : `${n}.0`
  return { uri: SCHEMA(n), type: 'mail', version, content: `{"const":${n}}`, createdAt: now }
}

function recordOf({ call: { n }, now, cause }: Given): AuditRecord {
  const [key, address] = n % 3 === 0 ? [null, null] : [`key-${n % 2}`, '::1']
  const route = { method: 'POST', route: '/ojs/v1/jobs', path: `/ojs/v1/jobs?ü=${n}` }
  const { requestId } = cause
  return { at: now, requestId, key, role: key && 'operator', address, ...route, status: 200 + n }
}

export const QUEUE_VERBS = verbs({
  pause: { run: (g) => g.ledger.pauses.pause(QUEUE(g.call.job), g.now) },
  resume: { weight: 2, run: (g) => g.ledger.pauses.resume(QUEUE(g.call.job), g.now) },
  told: {
    isAlone: true,
    run: async (g) => {
      const queue = QUEUE(g.call.job)
      const since = g.ledger.known.pauses.since(queue)
      g.ledger.pauses.told(queue, g.call.n % 4 === 0 ? null : since)
      await settleLazily(g.ledger)
    },
  },
  drain: { run: (g) => g.ledger.queueSettings.drain(NAME(g), g.now) },
  endDrain: { run: (g) => g.ledger.queueSettings.endDrain(NAME(g)) },
  configure: {
    weight: 2,
    run: (g) => {
      const { n } = g.call
      const change = {
        ...(n % 2 === 0 && { defaultRetry: RETRIES[(n >> 1) % RETRIES.length] ?? null }),
        ...(n % 3 === 0 && { maxSize: n % 5 === 0 ? null : n }),
        ...(n % 5 === 0 && { maxSizeBytes: n % 4 === 0 ? null : n * 1_000 }),
      }
      return g.ledger.queueSettings.configure(NAME(g), change, g.now)
    },
  },
  markLost: { run: (g) => g.ledger.lost.mark(NAME(g), g.now) },
  markUnwritten: { run: (g) => g.ledger.unwritten.mark(NAME(g)) },
  settleUnwritten: { run: (g) => g.ledger.unwritten.settle(NAME(g)) },
  rearmMessages: {
    isAlone: true,
    run: (g) => g.ledger.lostMessages.rearm(QUEUE(g.call.job), SPAN(g)),
  },
  listLost: {
    isAlone: true,
    run: (g) => g.ledger.read.lostMessages.list(QUEUE(g.call.job), SPAN(g), MANY),
  },
  look: {
    isAlone: true,
    weight: 2,
    run: (g) => {
      const isUsed = (queue: string) => g.call.n % 4 === 0 && queue === NAME(g)
      return g.ledger.idle.look(g.now, g.call.n % 2 === 0 ? 0 : 1_000, isUsed)
    },
  },
  forgetQueue: { weight: 2, run: (g) => g.ledger.idle.forget(NAME(g)) },
  deleteQueue: { run: (g) => g.ledger.idle.delete(NAME(g)) },
  recordRetryQueue: {
    run: (g) => g.ledger.recordRetryQueue({ queue: NAME(g), delayMs: 100 * (g.call.n % 9) }),
  },
  recordQueue: { run: (g) => g.ledger.recordQueue(NAME(g), g.now) },
  recordIdentity: { run: (g) => g.ledger.recordIdentity(NAME(g), `exchange-${g.call.n}`) },
  insertSchema: {
    weight: 2,
    run: (g) => g.ledger.schemas.insert(schemaOf(g), MOST_SCHEMAS, requestOf(g.call).request),
  },
  deleteSchema: { run: (g) => g.ledger.schemas.delete(SCHEMA(g.call.n)) },
  beginMaintenance: {
    run: (g) => {
      const endsAt = g.call.n % 2 === 0 ? null : g.now + 5_000
      const reason = g.call.n % 3 === 0 ? null : `because ${g.call.n}`
      return g.ledger.maintenance.begin({ startedAt: g.now, endsAt, reason })
    },
  },
  endMaintenance: { run: (g) => g.ledger.maintenance.end() },
  recordEpoch: { run: (g) => g.ledger.epochs.record(g.now, g.call.n % 2 === 0 ? 0 : g.now - 5) },
  noteSeen: { run: (g) => g.ledger.epochs.noteSeen(g.now) },
  append: { run: (g) => g.ledger.audit.append(recordOf(g)) },
  review: {
    isAlone: true,
    run: (g) => g.ledger.concurrency.review(g.call.n % 2 === 0 ? '' : 'concurrent-0', MANY),
  },
  written: { run: (g) => g.ledger.written() },
  pruneKeys: { isAlone: true, run: (g) => g.ledger.idempotency.prune(g.now, MANY) },
})
