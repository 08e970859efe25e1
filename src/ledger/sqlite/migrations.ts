/** Brings the schema of a ledger's file up to date, in one transaction. */
import { resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Logger } from '../../logger.ts'
import { sql as jobs } from './migrations/0001-jobs.ts'
import { sql as lifecycle } from './migrations/0002-lifecycle.ts'
import { sql as control } from './migrations/0003-control.ts'
import { sql as schemas } from './migrations/0004-schemas.ts'
import { sql as cron } from './migrations/0005-cron.ts'
import { sql as queues } from './migrations/0006-queues.ts'
import { sql as workflows } from './migrations/0007-workflows.ts'
import { sql as unique } from './migrations/0008-unique.ts'
import { sql as ahead } from './migrations/0009-ahead.ts'
import { sql as checks } from './migrations/0010-checks.ts'
import { sql as shortKeys } from './migrations/0011-short-keys.ts'
import { sql as identities } from './migrations/0012-markers.ts'
import { sql as stepAttempts } from './migrations/0013-step-attempts.ts'
import { sql as lostQueues } from './migrations/0014-lost-queues.ts'
import { sql as unwrittenQueues } from './migrations/0015-unwritten-queues.ts'
import { sql as extendedLeases } from './migrations/0016-extended-leases.ts'
import { sql as uniqueKeys } from './migrations/0017-unique-keys.ts'
import { sql as keptKeys } from './migrations/0018-kept-keys.ts'
import { sql as idleQueues } from './migrations/0019-idle-queues.ts'
import { sql as scopedTombstones } from './migrations/0020-scoped-tombstones.ts'
import { sql as schemaVersions } from './migrations/0021-schema-versions.ts'
import { sql as runningMark } from './migrations/0022-running-mark.ts'
import { sql as seenAt } from './migrations/0023-seen-at.ts'
import { sql as history } from './migrations/0024-history.ts'
import { sql as progress } from './migrations/0025-progress.ts'
import { sql as traffic } from './migrations/0026-traffic.ts'
import { sql as search } from './migrations/0027-search.ts'
import { sql as maintenance } from './migrations/0028-maintenance.ts'
import { sql as cronRuns } from './migrations/0029-cron-runs.ts'
import { sql as bulk } from './migrations/0030-bulk.ts'
import { sql as concurrency } from './migrations/0031-concurrency.ts'
import { sql as queueSettings } from './migrations/0032-queue-settings.ts'
import { sql as audit } from './migrations/0033-audit.ts'
import { sql as resultEnds } from './migrations/0034-result-ends.ts'
import { LEDGER_ID, RUNNING_ID } from './running-mark.ts'
import { type Database, inTransaction } from './sql/driver.ts'

/** In order; the number of a migration is its place, starting at 1. Never edit the SQL of a released one. */
export const MIGRATIONS: readonly string[] = [
  jobs,
  lifecycle,
  control,
  schemas,
  cron,
  queues,
  workflows,
  unique,
  ahead,
  checks,
  shortKeys,
  identities,
  stepAttempts,
  lostQueues,
  unwrittenQueues,
  extendedLeases,
  uniqueKeys,
  keptKeys,
  idleQueues,
  scopedTombstones,
  schemaVersions,
  runningMark,
  seenAt,
  history,
  progress,
  traffic,
  search,
  maintenance,
  cronRuns,
  bulk,
  concurrency,
  queueSettings,
  audit,
  resultEnds,
]

/** A migration blocks the process, log output included: wait this long so that the announcement gets out. */
const ANNOUNCE_MS = 50

/**
 * Brings the schema up to date, in one transaction. If that fails, throws and leaves the file as it was. A
 * ledger of a million jobs may take half a minute, in which the gateway seems to hang, so the log announces
 * the migration first.
 */
export async function migrate(db: Database, path: string, logger: Logger): Promise<void> {
  const version = readPragma(db, 'user_version')
  if (version === 0) {
    apply(db, MIGRATIONS)
    // Tells an operator who started the gateway in the wrong folder that this is not the ledger they want.
    logger.info({ ledger: resolve(path) }, 'new ledger')
    return
  }
  if (version === MIGRATIONS.length) return
  const change = { ledger: path, from: version, to: MIGRATIONS.length }
  logger.info(change, 'ledger is being migrated; nothing is served before that is done')
  await pause(ANNOUNCE_MS)
  const startedAt = performance.now()
  apply(db, MIGRATIONS.slice(version))
  const durationMs = Math.round(performance.now() - startedAt)
  logger.info({ ...change, durationMs }, 'ledger migrated')
}

/** Applies the missing migrations in one transaction: with one sync, a new ledger opens in half the time. */
function apply(db: Database, missing: readonly string[]): void {
  const version = `PRAGMA user_version = ${MIGRATIONS.length}`
  inTransaction(db, [...missing, `PRAGMA application_id = ${LEDGER_ID}; ${version}`])
}

/** Throws if the file is not a ledger, or one of a newer version. Only reads. */
export function refuseOthers(db: Database, path: string): void {
  const isLedger = [LEDGER_ID, RUNNING_ID].includes(readPragma(db, 'application_id'))
  const isEmpty = db.prepare('SELECT 1 FROM sqlite_master').get() === undefined
  if (!isLedger && !isEmpty) throw new Error(`${path} is an SQLite file, but not a ledger`)
  const version = readPragma(db, 'user_version')
  if (version > MIGRATIONS.length) {
    throw new Error(
      `ledger ${path} was written by a newer ojs-rabbitmq ` +
        `(schema ${version}, this one knows ${MIGRATIONS.length})`,
    )
  }
}

function readPragma(db: Database, name: 'user_version' | 'application_id'): number {
  const row = db.prepare(`PRAGMA ${name}`).get() as Record<typeof name, number>
  return row[name]
}
