/** The columns of a job's row, and the statements that load and store rows. */
import { type Carry, type JobRow, standingOf } from '../../../job/job.ts'
import type { KeptRow, Texts } from '../../../job/transitions/row.ts'
import { snakeCase } from '../../../job/values/snake-case.ts'
import type { Answer, Statement } from '../connection.ts'
import { withoutNul } from '../nul.ts'

/** But for `seq`, which the table gives out. */
type Column = Exclude<keyof KeptRow, 'seq'>

const COLUMNS: Readonly<Record<Column, 'text' | 'bigint' | 'boolean'>> = {
  id: 'text',
  generation: 'bigint',
  state: 'text',
  attempt: 'bigint',
  queue: 'text',
  type: 'text',
  priority: 'bigint',
  maxAttempts: 'bigint',
  visibilityTimeoutMs: 'bigint',
  timeoutMs: 'bigint',
  outbox: 'bigint',
  messageOut: 'boolean',
  holder: 'text',
  workerId: 'text',
  leaseMs: 'bigint',
  leaseExpiresAt: 'bigint',
  timeoutAt: 'bigint',
  dueAt: 'bigint',
  retryQueueMs: 'bigint',
  retryDelayMs: 'bigint',
  expiresAt: 'bigint',
  createdAt: 'bigint',
  enqueuedAt: 'bigint',
  activatedAt: 'bigint',
  startedAt: 'bigint',
  completedAt: 'bigint',
  cancelledAt: 'bigint',
  discardedAt: 'bigint',
  isDeadLetter: 'boolean',
  deadLetterCopied: 'boolean',
  endedAt: 'bigint',
  extendedMs: 'bigint',
  history: 'text',
  step: 'text',
  uniqueKey: 'text',
  cronEntry: 'bigint',
  concurrencyKey: 'text',
}
const NAMES = Object.keys(COLUMNS) as Column[]

/** For SELECT, of `jobs j`: rows come out as `KeptRow`. */
export const ROW = NAMES.map((name) => `j.${snakeCase(name)} AS "${name}"`)
  .concat('j.seq')
  .join(', ')
/** For SELECT, of `job_bodies b`. */
export const TEXTS = 'b.carry, b.error, b.errors, b.result, b.envelope'

const BODIES = `unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
  AS n (id, carry, error, errors, result, envelope)`

/** Locks rows, by id or by what they owe; always in the order of ids, or two groups could deadlock. */
export function lockRows(
  schema: string,
  ids: readonly string[],
  nonces: readonly number[],
): Statement {
  const text = `SELECT ${ROW} FROM ${schema}.jobs j WHERE j.id = ANY($1::text[])
    OR j.outbox = ANY($2::bigint[]) ORDER BY j.id FOR UPDATE`
  return { text, values: [withoutNul(ids), nonces] }
}

/** Of rows that are locked. */
export function readTexts(schema: string, ids: readonly string[]): Statement {
  const text = `SELECT b.id, ${TEXTS} FROM ${schema}.job_bodies b WHERE b.id = ANY($1::text[])`
  return { text, values: [withoutNul(ids)] }
}

/** A row to be stored. `errorCode`: `errorKeyOf` of its error; absent: that has not changed. */
export type StoredRow = KeptRow & { errorCode?: string }

/** A row as it is stored, and as it is to be. */
export type ChangedRow = readonly [before: KeptRow, after: StoredRow]

/** Does a column of the row have another value? */
export function isChanged([before, after]: ChangedRow): boolean {
  return after.errorCode !== undefined || NAMES.some((name) => before[name] !== after[name])
}

/** In the order of arrival. Without the columns that all rows leave empty: those of a new job are half of all. */
export function insertRows(schema: string, rows: readonly StoredRow[]): Statement {
  const names = NAMES.filter((name) => rows.some((row) => row[name] !== null))
  const text = `INSERT INTO ${schema}.jobs (${names.map(snakeCase).join(', ')}, error_code)
    SELECT ${names.map(given).join(', ')}, coalesce(n."errorCode", '') FROM ${recordOf(names)}`
  return { text, values: [JSON.stringify(rows, ['errorCode', ...names])] }
}

/**
 * Of rows that are locked. Only the columns in which some row differs from what is stored: the others would cost
 * both sides as much again.
 */
export function updateRows(schema: string, changed: readonly ChangedRow[]): Statement {
  const differs = (name: Column) => changed.some(([before, after]) => before[name] !== after[name])
  const names = NAMES.filter(differs)
  const set = [
    ...names.map((name) => `${snakeCase(name)} = ${given(name)}`),
    ...(changed.some(([, { errorCode }]) => errorCode !== undefined)
      ? ['error_code = coalesce(n."errorCode", j.error_code)']
      : []),
  ]
  const text = `UPDATE ${schema}.jobs j SET ${set.join(', ')}
    FROM ${recordOf(['id', ...names])} WHERE j.id = n.id`
  const rows = changed.map(([, row]) => row)
  return { text, values: [JSON.stringify(rows, ['id', 'errorCode', ...names])] }
}

function given(name: Column): string {
  return `n."${name}"`
}

function recordOf(names: readonly Column[]): string {
  const types = names.map((name) => `"${name}" ${COLUMNS[name]}`).join(', ')
  return `json_to_recordset($1) AS n (${types}, "errorCode" text)`
}

type Body = readonly [id: string, texts: Texts]
type Bodies = readonly Body[]

/** Roughly: without what small texts there are. */
export function lengthOf([, { errors, result, envelope }]: Body): number {
  return envelope.length + (errors?.length ?? 0) + (result?.length ?? 0)
}

export function insertTexts(schema: string, bodies: Bodies): Statement {
  const text = `INSERT INTO ${schema}.job_bodies (id, carry, error, errors, result, envelope)
    SELECT n.id, n.carry, n.error, n.errors, n.result, n.envelope FROM ${BODIES}`
  return { text, values: listsOf(bodies) }
}

export function updateTexts(schema: string, bodies: Bodies): Statement {
  const text = `UPDATE ${schema}.job_bodies b SET carry = n.carry, error = n.error,
    errors = n.errors, result = n.result, envelope = n.envelope FROM ${BODIES} WHERE b.id = n.id`
  return { text, values: listsOf(bodies) }
}

function listsOf(bodies: Bodies): unknown[] {
  return [
    bodies.map(([id]) => id),
    bodies.map(([, { carry }]) => (carry === null ? null : JSON.stringify(carry))),
    bodies.map(([, { error }]) => error),
    bodies.map(([, { errors }]) => errors),
    bodies.map(([, { result }]) => result),
    bodies.map(([, { envelope }]) => envelope),
  ]
}

export function deleteRows(schema: string, ids: readonly string[]): Statement[] {
  return ['job_bodies', 'jobs'].map((table) => ({
    text: `DELETE FROM ${schema}.${table} WHERE id = ANY($1::text[])`,
    values: [ids],
  }))
}

/** The rows of a SELECT of `ROW`. */
export function rowsOf({ rows }: Answer): KeptRow[] {
  return rows as readonly unknown[] as KeptRow[]
}

interface RawTexts extends Omit<Texts, 'carry'> {
  carry: string | null
}

/** The rows of a SELECT of an id and `TEXTS`. */
export function textsOf({ rows }: Answer): [id: string, texts: Texts][] {
  const raw = rows as readonly unknown[] as (RawTexts & { id: string })[]
  return raw.map((texts) => [texts.id, toTexts(texts)])
}

function toTexts({ carry, error, errors, result, envelope }: RawTexts): Texts {
  const read = carry === null ? null : (JSON.parse(carry) as Carry)
  return { carry: read, error, errors, result, envelope }
}

/** The rows of a SELECT of `ROW` and `TEXTS`. */
export function jobsOf(rows: readonly unknown[]): JobRow[] {
  return (rows as (KeptRow & RawTexts)[]).map((raw) => {
    return toJobRow(raw, toTexts(raw))
  })
}

export function toJobRow(row: KeptRow, texts: Texts): JobRow {
  return Object.assign(standingOf(row), texts)
}
