/** What a write works with: the prepared statements and the committed state. */
import type { JobRow } from '../../../job/job.ts'
import type { QueueRecord, RetryQueue } from '../../known.ts'
import type { CommittedState } from '../commit/committed-state.ts'
import type { Statements } from '../sql/statements.ts'
import { type AppendOnlyTable, queueRegister, retryQueueRegister } from './append-only-table.ts'
import { KeyedJobs } from './concurrency.ts'
import { KeptKeys } from './kept-keys.ts'
import { MaintenanceState } from './maintenance.ts'
import { MovedNonces } from './moved-nonces.ts'
import { Notes } from './notes.ts'
import { OutboxNonces } from './outbox-nonces.ts'
import { PauseStates } from './pauses.ts'
import { QueueSettingsState } from './queue-settings.ts'
import { TrafficMinutes } from './queue-traffic.ts'
import { RecentUniqueKeys } from './recent-unique-keys.ts'
import { StaleCopies } from './stale-copies.ts'
import { StateCounter } from './state-counter.ts'
import { Tombstones } from './tombstones.ts'
import type { WorkflowCounts } from './workflow-counts.ts'

/** What a write works with: the prepared statements, and the state that is kept in memory beside the rows. */
export interface Store {
  readonly statements: Statements
  readonly counter: StateCounter
  readonly queues: AppendOnlyTable<QueueRecord>
  readonly nonces: OutboxNonces
  readonly retryQueues: AppendOnlyTable<RetryQueue>
  readonly stale: StaleCopies
  readonly tombstones: Tombstones
  readonly pauses: PauseStates
  readonly maintenance: MaintenanceState
  readonly queueSettings: QueueSettingsState
  readonly traffic: TrafficMinutes
  readonly recentKeys: RecentUniqueKeys
  readonly keptKeys: KeptKeys
  readonly workflows: WorkflowCounts<Store>
  readonly notes: Notes
  readonly keyed: KeyedJobs
  /** Nonces that RabbitMQ has confirmed, until the commit that clears them from their rows. */
  readonly confirming: Set<number>
  readonly moved: MovedNonces
  /**
   * Wall time, ms: the job of a step that begins may be scheduled, and the holder of a unique key expired.
   */
  wall(): number
  /** Where retention goes on, for each kind of ended rows: the `ended_at` from which the next batch looks. */
  readonly pruned: Map<object, number>
}

/** Builds the `Store`: reads all that is kept in memory beside the rows from the file. */
export function openStore(
  statements: Statements,
  workflows: WorkflowCounts<Store>,
  wall: () => number,
  wake: (delayMs: number) => void = () => {},
  jobsPerMove?: number,
): { store: Store; committedStates: CommittedState[] } {
  const kept = {
    counter: new StateCounter(statements),
    queues: queueRegister(statements),
    nonces: new OutboxNonces(statements),
    retryQueues: retryQueueRegister(statements),
    stale: new StaleCopies(statements),
    tombstones: new Tombstones(statements),
    pauses: new PauseStates(statements),
    maintenance: new MaintenanceState(statements),
    queueSettings: new QueueSettingsState(statements),
    traffic: new TrafficMinutes(statements, wake),
    recentKeys: new RecentUniqueKeys(statements, jobsPerMove),
    keyed: new KeyedJobs(statements),
    workflows,
  }
  const confirming = new Set<number>()
  const moved = new MovedNonces()
  const keptKeys = new KeptKeys(statements)
  const pruned = new Map<object, number>()
  const notes = new Notes(statements)
  return {
    store: { statements, ...kept, keptKeys, notes, confirming, moved, wall, pruned },
    committedStates: Object.values(kept),
  }
}

/** Is this process the one that was to publish the row's job message, and has it seen no confirm? */
export function isMessageOwed(
  { nonces, confirming }: Store,
  { outbox }: Pick<JobRow, 'outbox'>,
): boolean {
  return outbox !== null && nonces.isOurs(outbox) && !confirming.has(outbox)
}
