import type { Dialect } from '../../src/dialect.ts'

/** T5: OJS's document on checkpoints (DUR-007) refuses what these cases of its suite do. */
const SAVE_WHILE_WAITING = Object.fromEntries(
  [
    'complex-nested-state',
    'double-delete-idempotent',
    'overwrite',
    'save-retrieve',
    'sequence',
    'timeout-during-save',
  ].map((name) => [
    `ext-durable-execution/checkpoint-${name}.json`,
    'T5: saves a checkpoint of a job that nobody has fetched; DUR-007 wants a 409',
  ]),
)

/** Cases that cannot pass in any dialect. */
const DEFECTIVE = {
  'level-1-reliable/retry/retry-error-history-tracked.json':
    'defective: wants error types that none of its requests names',
  'ext-job-versioning/job-versioning-schema-register.json':
    'another registry: wants PUT /admin/schemas/{type}/{version}; that of seed 001 §15 is POST /schemas, by URI',
}

/**
 * Cases of the public suite that cannot pass, each with its reason. The run fails when one of these passes,
 * so that outdated reasons are removed, and when any other case fails.
 *
 * T1 to T5: the case contradicts a seed (the OJS documents that this server implements). One answer cannot
 * satisfy both, so `src/dialect.ts` selects which of them is followed.
 */
export const KNOWN_FAILURES: Readonly<Record<Dialect, Readonly<Record<string, string>>>> = {
  seed: {
    ...DEFECTIVE,
    ...SAVE_WHILE_WAITING,
    'level-1-reliable/worker/worker-graceful-shutdown.json':
      'wants a test hook: a directive to the worker, given as metadata of one of its jobs',
    'level-0-core/envelope/invalid-type-format.json':
      'T4: step 1 refuses `Email.Send`, which the type pattern of seed 003 allows; its other steps are own/invalid-type-format.json',
    'level-0-core/operations/error-response-structure-conflict.json':
      'T1: wants the error code `conflict`; seed 001 §16.3 has no such code and §10.2 shows `invalid_request`',
    'level-4-advanced/bulk/bulk-enqueue.json':
      'T2: wants `queue` to be an object in the stats of a queue; in seed 001 §11.2 it is the name',
    'level-4-advanced/bulk/bulk-enqueue-large-batch.json':
      'T2: wants `queue` to be an object in the stats of a queue; in seed 001 §11.2 it is the name',
    'level-4-advanced/queue-ops/queue-stats.json':
      'T2: wants `queue` to be an object in the stats of a queue; in seed 001 §11.2 it is the name',
    'level-4-advanced/queue-ops/pause-queue.json':
      'T2, T3: wants `queue` to be an object and a paused queue to take jobs; seed 001 §11.3: a name, and 422 `queue_paused`',
  },
  conformance: DEFECTIVE,
}
