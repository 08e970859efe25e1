import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { prepareStatements, type Statements } from '../../../src/ledger/sqlite/sql/statements.ts'
import { openSqliteHarness, type SqliteHarness, withTexts } from './harness.ts'

/** Statements of requests and timers, and the index that each must use. */
const INDEX_OF: Partial<Record<keyof Statements, string>> = {
  find: 'sqlite_autoindex_jobs_1',
  claimNext: 'sqlite_autoindex_jobs_1',
  complete: 'sqlite_autoindex_jobs_1',
  extend: 'sqlite_autoindex_jobs_1',
  failToRetry: 'sqlite_autoindex_jobs_1',
  failToAvailable: 'sqlite_autoindex_jobs_1',
  failToDiscarded: 'sqlite_autoindex_jobs_1',
  revive: 'sqlite_autoindex_jobs_1',
  eraseEnded: 'sqlite_autoindex_jobs_1',
  setCarry: 'sqlite_autoindex_jobs_1',
  promote: 'INTEGER PRIMARY KEY',
  rearm: 'INTEGER PRIMARY KEY',
  handOverRow: 'INTEGER PRIMARY KEY',
  nextDue: 'jobs_due',
  due: 'jobs_due',
  ahead: 'jobs_ahead',
  sendAhead: 'INTEGER PRIMARY KEY',
  expired: 'jobs_expires',
  overdue: 'jobs_lease',
  activeByWorker: 'jobs_lease',
  leasesFrom: 'jobs_lease',
  extendLeases: 'jobs_lease',
  boundLeases: 'jobs_lease',
  boundRetries: 'jobs_due',
  handBack: 'sqlite_autoindex_jobs_1',
  oldestDeadLetters: 'jobs_dead_queue',
  prunable: 'jobs_prunable',
  policyOf: 'INTEGER PRIMARY KEY',
  prune: 'INTEGER PRIMARY KEY',
  pruneToErased: 'INTEGER PRIMARY KEY',
  erase: 'sqlite_autoindex_jobs_1',
  prunableAfter: 'jobs_prunable',
  boundEnds: 'jobs_prunable',
  rearmable: 'jobs_live',
  rearmableOfRetryQueue: 'jobs_live',
  lostMessages: 'jobs_live',
  handOverQueue: 'jobs_lease',
  liveAfter: 'jobs_live',
  forgetStrays: 'jobs_stray',
  strayAfter: 'jobs_stray',
  forgetRetryQueueStrays: 'jobs_stray',
  outboxPage: 'jobs_outbox',
  owing: 'jobs_outbox',
  owedMessages: 'jobs_outbox',
  owedMessagesOf: 'jobs_outbox',
  confirmed: 'jobs_outbox',
  copyConfirmed: 'sqlite_autoindex_jobs_1',
  nativeNext: 'sqlite_autoindex_jobs_1',
  nativeStart: 'sqlite_autoindex_jobs_1',
  nativeDone: 'sqlite_autoindex_jobs_1',
  nativeNextDone: 'sqlite_autoindex_jobs_1',
  amendErrors: 'sqlite_autoindex_jobs_1',
  extendNative: 'sqlite_autoindex_jobs_1',
  handOverAny: 'sqlite_autoindex_jobs_1',
  isKnown: 'sqlite_autoindex_jobs_1',
  countEnded: 'jobs_prunable',
  endedKeys: 'jobs_prunable',
  countStrays: 'jobs_stray',
  strayKeys: 'jobs_stray',
  sortKeys: 'INTEGER PRIMARY KEY',
  nextKey: 'jobs_keyed',
  limitOfWaiting: 'jobs_keyed',
  heldOfKey: 'jobs_keyed',
  activePolicies: 'jobs_lease',
  cancelledMessages: 'jobs_cancelled',
  cronLive: 'jobs_cron',
  cronReleasable: 'jobs_cron',
  cronReleasableSizes: 'jobs_cron',
  cronOwn: 'sqlite_autoindex_jobs_1',
  isCrowded: 'jobs_crowded',
  holdersOfKey: 'INTEGER PRIMARY KEY',
  sizeOfHolders: 'INTEGER PRIMARY KEY',
  moveKeys: 'INTEGER PRIMARY KEY',
  keyedAfter: 'INTEGER PRIMARY KEY',
  uniqueKey: 'sqlite_autoindex_jobs_1',
}

describe('every statement', () => {
  let harness: SqliteHarness
  const plans = new Map<string, string[]>()
  beforeAll(async () => {
    harness = await openSqliteHarness()
    const { noted, texts } = withTexts(harness.db)
    for (const [name, statement] of Object.entries(prepareStatements(noted))) {
      const sql = `EXPLAIN QUERY PLAN ${texts.get(statement)}`
      const plan = harness.db.prepare(sql).all() as { detail: string }[]
      plans.set(
        name,
        plan.map(({ detail }) => detail),
      )
    }
  })
  afterAll(() => harness.destroy())

  it('finds its rows by an index and in its order, except five', () => {
    const scans = [...plans].filter(([, plan]) =>
      plan.some((detail) => /SCAN jobs|TEMP B-TREE/.test(detail)),
    )
    expect(plans.size).toBeGreaterThan(60)
    // `activeByWorker` sorts the page that it has found by the index. `boundCreated` reads all rows, but only
    // at a start after the clock was set back, and `hasCrowded` the first entry of an index, at every start.
    const found = new Set(scans.map(([name]) => name))
    expect(found).toEqual(
      new Set(['recount', 'recountKeys', 'activeByWorker', 'boundCreated', 'hasCrowded']),
    )
  })

  it.each([
    ['tombstonesOf', 'tombstones_queue'],
    ['tombstone', 'sqlite_autoindex_tombstones_1'],
    ['forgetTombstone', 'sqlite_autoindex_tombstones_1'],
    ['forgetOldestTombstone', 'INTEGER PRIMARY KEY'],
    ['pruneTombstones', 'tombstones_time'],
    ['boundTombstones', 'tombstones_time'],
  ])('%s goes by %s', (name, index) => {
    const plan = plans.get(name)?.join('; ')
    expect(plan).toMatch(new RegExp(`SEARCH tombstones USING (COVERING )?(INDEX )?${index}\\b`))
    expect(plan).not.toContain('SCAN')
  })

  it.each([
    ['cronFind', 'SEARCH cron_jobs USING INDEX sqlite_autoindex_cron_jobs_1'],
    ['cronRemove', 'SEARCH cron_jobs USING INDEX sqlite_autoindex_cron_jobs_1'],
    ['cronDue', 'SEARCH cron_jobs USING INDEX cron_jobs_due'],
    ['cronDueSizes', 'SEARCH cron_jobs USING INDEX cron_jobs_due'],
    ['cronAhead', 'SEARCH cron_jobs USING INTEGER PRIMARY KEY'],
    ['cronReset', 'SEARCH cron_jobs USING INTEGER PRIMARY KEY'],
    ['cronReleasable', 'SEARCH entry USING INDEX cron_jobs_queued'],
    ['cronReleasableSizes', 'SEARCH entry USING INDEX cron_jobs_queued'],
    ['cronMove', 'SEARCH cron_jobs USING INTEGER PRIMARY KEY'],
    ['cronRan', 'SEARCH cron_jobs USING INTEGER PRIMARY KEY'],
    // In the order of the table.
    ['cronList', 'SCAN cron_jobs'],
  ])('%s has the plan %s', (name, expected) => {
    expect(plans.get(name)?.[0]).toMatch(new RegExp(`^${expected}( |$)`))
  })

  it.each([
    ['rememberedKey', 'sqlite_autoindex_idempotency_keys_1'],
    ['forgetKey', 'sqlite_autoindex_idempotency_keys_1'],
    ['pruneKeys', 'INTEGER PRIMARY KEY'],
  ])('%s goes by %s', (name, index) => {
    const plan = plans.get(name)?.join('; ')
    expect(plan).toMatch(
      new RegExp(`SEARCH idempotency_keys USING (COVERING )?(INDEX )?${index}\\b`),
    )
  })

  it.each([
    ['audit', 'INTEGER PRIMARY KEY'],
    ['pruneAudit', 'INTEGER PRIMARY KEY'],
    ['auditOfKey', 'audit_of_key'],
    ['auditCountOfKey', 'audit_of_key'],
    ['auditCount', 'SEARCH'],
  ])('%s goes by %s', (name, index) => {
    const plan = plans.get(name)?.join('; ') ?? ''
    expect(plan).toContain(index)
    expect(plan).not.toMatch(/SCAN audit|TEMP B-TREE/)
  })

  it.each(Object.entries(INDEX_OF))('%s goes by %s', (name, index) => {
    const reads = (plans.get(name) ?? []).filter((detail) => detail.includes('jobs'))
    const byIndex = new RegExp(`SEARCH jobs USING (COVERING )?(INDEX )?${index}\\b`)
    expect(
      reads.some((detail) => byIndex.test(detail)),
      reads.join('; '),
    ).toBe(true)
  })

  it('finds the rows of a unique key by its beginning, and the crowded ones by all columns of their index', () => {
    expect(plans.get('keyed')).toContain('SEARCH unique_keys USING PRIMARY KEY (beginning=?)')
    expect(plans.get('keptKeys')).toContain('SEARCH kept_keys USING PRIMARY KEY (key=?)')
    expect(plans.get('pruneKeptKeys')?.join('; ')).toContain('INDEX kept_keys_until (until<?)')
    expect(plans.get('holdersOfKey')?.join('; ')).toContain(
      'jobs_crowded (<expr>=? AND <expr>=? AND created_at>?)',
    )
  })
})
