/** The two read sides of the ledger's contract: what is kept in memory, and reads of the rows. */
import type { JobStanding } from '../../job/job.ts'
import type { OwedKind } from '../bulk.ts'
import type { Known, LedgerWarning } from '../known.ts'
import { OWED_LOOKED_AT } from '../lists/limits.ts'
import type { Reads } from '../reads.ts'
import type { SqliteBulk } from './bulk/bulk.ts'
import type { Access } from './commit/access.ts'
import type { SqliteConcurrency } from './keyed/concurrency.ts'
import type { SqliteSearch } from './search/search.ts'
import { onlyRow } from './sql/driver.ts'
import { toJobRow, toStanding } from './sql/rows.ts'
import type { SqliteAudit } from './state/audit.ts'
import type { SqliteEpochs } from './state/epochs.ts'
import type { SqliteHistory } from './state/history.ts'
import type { SqliteLostQueues } from './state/lost-queues.ts'
import type { SqliteMaintenance } from './state/maintenance.ts'
import type { SqliteCheckpoints, SqliteProgress } from './state/progress.ts'
import type { SqliteQueueSettings } from './state/queue-settings.ts'
import type { Store } from './state/store.ts'
import type { SqliteUnwrittenQueues } from './state/unwritten-queues.ts'
import type { Confirms } from './writes/confirms.ts'
import type { SqliteCron } from './writes/cron.ts'
import type { SqliteIdempotency } from './writes/idempotency.ts'
import { activeByWorker, leasedTo } from './writes/leases.ts'
import type { SqliteIdleQueues, SqlitePauses } from './writes/queues.ts'
import type { SqliteLostMessages } from './writes/republish.ts'
import type { SqliteSchemas } from './writes/schemas.ts'
import { cancelledMessages } from './writes/tombstones.ts'
import type { SqliteWorkflows } from './writes/workflows.ts'

/** The parts of a ledger that have reads and writes of their own. */
export interface Parts {
  schemas: SqliteSchemas
  cron: SqliteCron
  pauses: SqlitePauses
  maintenance: SqliteMaintenance
  queueSettings: SqliteQueueSettings
  lost: SqliteLostQueues
  unwritten: SqliteUnwrittenQueues
  idle: SqliteIdleQueues
  lostMessages: SqliteLostMessages
  epochs: SqliteEpochs
  workflows: SqliteWorkflows
  idempotency: SqliteIdempotency
  history: SqliteHistory
  progress: SqliteProgress
  checkpoints: SqliteCheckpoints
  search: SqliteSearch
  bulk: SqliteBulk
  concurrency: SqliteConcurrency
  audit: SqliteAudit
  confirms: Confirms
}

/** Nothing is stale: all that is kept in memory changes with the commits of this process, the only ones. */
export function knownOf(
  parts: Parts,
  { counter, queues, retryQueues, stale, traffic }: Store,
  access: Access,
  warnings: () => LedgerWarning[],
): Known {
  const { pauses, lost, unwritten, idle, schemas, workflows } = parts
  const { maintenance, queueSettings } = parts
  return {
    staleMs: 0,
    ...{ pauses, lost, unwritten, traffic, idle, schemas, workflows, maintenance, queueSettings },
    queues: () => queues.all(),
    hasQueue: (name) => queues.has(name),
    retryQueues: () => retryQueues.all(),
    counts: (queue) => counter.of(queue),
    claimable: (queue) => counter.claimable(queue),
    held: (queue) => counter.held(queue),
    deadLetterCount: (queue) => counter.deadLetters(queue ?? null),
    staleCopies: () => stale.all(),
    fault: () => access.fault(),
    warnings,
    replication: { kind: 'sqlite', isReplicated: () => false, standbys: () => 0 },
  }
}

export function readsOf(parts: Parts, store: Store, access: Access): Reads {
  const { cron, schemas, workflows, idempotency, lostMessages, epochs, history, confirms } = parts
  const { audit, search, bulk, progress, checkpoints, concurrency } = parts
  const { statements, tombstones, traffic } = store
  return {
    ...{ cron, schemas, workflows, idempotency, lostMessages, epochs, history, traffic },
    size: () => access.ask(() => onlyRow(statements.size.get())),
    ...{ audit, search, bulk, progress, checkpoints, concurrency },
    deadLetterStats: (queues) => search.deadLetterStats(queues),
    find: (id) => access.ask(() => toJobRow(statements.find.get(id))),
    standing: (id) => access.ask(() => toStanding(statements.standing.get(id))),
    standings: (ids) => access.ask(() => standingsOf(store, ids)),
    activeByWorker: (limit) => access.ask(() => activeByWorker(store, limit)),
    leasedTo: (...of) => access.ask(() => leasedTo(store, ...of)),
    expiring: (wall, limit) =>
      access.ask(() => {
        const rows = statements.expired.all(wall, limit)
        return { queues: [...new Set(rows.map(({ queue }) => queue))], count: rows.length }
      }),
    isTombstoned: (id, queue = null) => access.ask(() => tombstones.has(id, queue)),
    tombstones: (queues, limit) => access.ask(() => cancelledMessages(store, queues, limit)),
    outboxPage: (after, limit) => access.ask(() => confirms.owedPage(after, limit)),
    owed: (outboxes) => access.ask(() => confirms.owed(outboxes)),
    owedMessages: (atMost, kind) => access.ask(() => owedMessages(store, atMost, kind)),
    queueIdentity: (name) => access.ask(() => statements.identity.get(name)?.identity ?? null),
  }
}

function owedMessages({ statements }: Store, atMost: number, kind?: OwedKind): number {
  if (kind === undefined) return onlyRow(statements.owedMessages.get(atMost)).count
  const look = OWED_LOOKED_AT * atMost
  const { queues, ofCancels } = kind
  const found = statements.owedMessagesOf.get(look, JSON.stringify(queues), Number(ofCancels))
  const { looked, count } = onlyRow(found)
  return looked < look ? Math.min(count, atMost) : atMost
}

function standingsOf({ statements }: Store, ids: readonly string[]): Map<string, JobStanding> {
  const rows = statements.standings.all(JSON.stringify(ids)).flatMap((raw) => toStanding(raw) ?? [])
  return new Map(rows.map((row) => [row.id, row]))
}
