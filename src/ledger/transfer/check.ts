/** Does a ledger agree with itself? */
import type { Store, Value } from './store.ts'

export interface LedgerCheck {
  jobs: number
  /** Rows of jobs that were deleted, by which late messages of them are recognised (`isErased`). */
  erased: number
  /** Messages that RabbitMQ has not confirmed yet; a gateway publishes them. */
  owedMessages: number
  /** What is wrong, a line each. */
  problems: string[]
}

export async function checkLedger(store: Store): Promise<LedgerCheck> {
  const problems = [...(await wrongCounts(store)), ...(await orphans(store))]
  const [numbers] = await store.ask(
    `SELECT count(*) AS "all", count(outbox) AS owed,
       count(*) FILTER (WHERE state = 'withdrawn') AS erased FROM %S.jobs`,
  )
  const erased = Number(numbers?.['erased'])
  const jobs = Number(numbers?.['all']) - erased
  return { jobs, erased, owedMessages: Number(numbers?.['owed']), problems }
}

/** Counts are kept, never counted: here they are. */
async function wrongCounts(store: Store): Promise<string[]> {
  const kept = byQueueAndState(
    await store.ask(
      `SELECT queue, state, sum(count) AS n FROM %S.state_counts
       WHERE state NOT IN ('dead_letter', 'with_native', 'held') GROUP BY queue, state
       HAVING sum(count) <> 0`,
    ),
  )
  const counted = byQueueAndState(
    await store.ask(
      `SELECT queue, state, count(*) AS n FROM %S.jobs WHERE state <> 'withdrawn' GROUP BY queue, state`,
    ),
  )
  return [...new Set([...kept.keys(), ...counted.keys()])]
    .filter((place) => kept.get(place) !== counted.get(place))
    .map((place) => `${place}: ${kept.get(place) ?? 0} kept, ${counted.get(place) ?? 0} counted`)
}

function byQueueAndState(rows: readonly Record<string, Value>[]): Map<string, number> {
  return new Map(rows.map(({ queue, state, n }) => [`${queue} ${state}`, Number(n)]))
}

/** Rows that belong to a job that is not there. */
async function orphans(store: Store): Promise<string[]> {
  const found = await Promise.all(
    [
      ['checkpoints', 'job_id', 'jobs', 'id'],
      ['progress', 'job_id', 'jobs', 'id'],
    ].map(async ([table, column, owner, key]) => {
      const text = `SELECT count(*) AS n FROM %S.${table} t
        WHERE NOT EXISTS (SELECT 1 FROM %S.${owner} o WHERE o.${key} = t.${column})`
      const count = Number((await store.ask(text))[0]?.['n'])
      return count === 0 ? [] : [`${count} rows of ${table} belong to none of ${owner}`]
    }),
  )
  return found.flat()
}
