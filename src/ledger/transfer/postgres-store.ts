/** A ledger on PostgreSQL as tables, in one transaction: read as it was at one moment, or written whole. */
import type { Logger } from '../../logger.ts'
import { shownAddress } from '../postgres/address.ts'
import { LedgerClock } from '../postgres/clock.ts'
import {
  type Connection,
  connectWritable,
  type Row,
  type Statement,
} from '../postgres/connection.ts'
import { errorKeyOf } from '../postgres/group/error-codes.ts'
import type { Leadership } from '../postgres/leadership.ts'
import { schemaOf } from '../postgres/schema.ts'
import { type PostgresPlace, standBy } from '../postgres/stand-by.ts'
import type { Store, Value, Values } from './store.ts'
import { KEPT_SETTINGS, TABLES, type Table } from './tables.ts'

const PAGE = 500
const TIMEOUTS = { connectMs: 10_000, answerMs: 0 }

/** `isAlone`: rejects while a gateway serves, and lets none begin. */
export async function postgresStore(
  place: PostgresPlace,
  logger: Logger,
  isAlone: boolean,
): Promise<Store> {
  const clock = new LedgerClock()
  const given = { url: () => 'ojs-rabbitmq ledger', clock, logger }
  const { leadership } = await standBy(place, given)
  try {
    if (isAlone && !(await leadership.take()))
      throw new Error('a gateway serves with this ledger: stop all of them first')
    const connection = await connectWritable(place.address, TIMEOUTS)
    const store = new PostgresStore(connection, place, leadership)
    // Whoever had the ledger before can write no more, even if it only stands still.
    if (isAlone) await store.fence()
    await store.begin()
    return store
  } catch (error) {
    await leadership.resign()
    await leadership.close()
    throw error
  }
}

class PostgresStore implements Store {
  readonly shown: string
  readonly #connection: Connection
  readonly #schema: string
  readonly #leadership: Leadership
  #lost: Error | null = null

  constructor(connection: Connection, place: PostgresPlace, leadership: Leadership) {
    this.#connection = connection
    this.#schema = schemaOf(place.prefix)
    this.#leadership = leadership
    this.shown = shownAddress(place.address)
    leadership.keep(() => {
      this.#lost = new Error('a gateway has begun to serve meanwhile')
    })
  }

  async fence(): Promise<void> {
    await this.#rows({ text: `UPDATE ${this.#schema}.slots SET epoch = epoch + 1` })
  }

  async begin(): Promise<void> {
    await this.#rows({ text: 'BEGIN ISOLATION LEVEL REPEATABLE READ' })
  }

  async isEmpty(): Promise<boolean> {
    const tables = TABLES.map(({ name }) => `SELECT 1 FROM ${this.#schema}.${name}`)
    const text = `SELECT EXISTS (${tables.join(' UNION ALL ')}) AS has_any`
    return (await this.#rows({ text }))[0]?.['has_any'] === false
  }

  async *read({ name, columns, sides = [], key }: Table): AsyncIterable<Values[]> {
    const joins = sides.map(({ table, isOptional }, i) => {
      const kind = isOptional ? 'LEFT JOIN' : 'JOIN'
      return `${kind} ${this.#schema}.${table} s${i} USING (${key.join()})`
    })
    const of = (column: string) => {
      const i = sides.findIndex((side) => side.columns.includes(column))
      return i < 0 ? `m.${column}` : `s${i}.${column}`
    }
    const names = columns.map((column) => of(column.name))
    // By bytes, as SQLite.
    const order = key.map((column) => (isText(column) ? `m.${column} COLLATE "C"` : `m.${column}`))
    await this.#rows({
      text: `DECLARE page NO SCROLL CURSOR FOR SELECT ${names.join()} FROM ${this.#schema}.${name} m
        ${joins.join(' ')} ORDER BY ${order.join()}`,
    })
    for (;;) {
      const rows = await this.#rows({ text: `FETCH ${PAGE} FROM page` })
      if (rows.length > 0) yield rows.map((row) => columns.map((column) => plain(row[column.name])))
      if (rows.length < PAGE) break
    }
    await this.#rows({ text: 'CLOSE page' })
  }

  async write(table: Table, rows: readonly Values[]): Promise<void> {
    const { name, columns, sides = [], key } = table
    const objects = rows.map((row) => objectOf(table, row))
    const apart = sides.flatMap((side) => side.columns)
    const own = columns.map((column) => column.name).filter((each) => !apart.includes(each))
    await this.#insert(name, [...own, ...(OWN[name] ?? [])], objects)
    for (const { table: side, columns: there, isOptional } of sides) {
      const has = (object: Record<string, unknown>) =>
        !isOptional || there.some((column) => object[column] !== null)
      await this.#insert(side, [...key, ...there, ...(OWN[side] ?? [])], objects.filter(has))
    }
  }

  async #insert(table: string, columns: readonly string[], rows: readonly object[]): Promise<void> {
    const full = `${this.#schema}.${table}`
    const names = columns.join()
    const text = `INSERT INTO ${full} (${names}) OVERRIDING SYSTEM VALUE
      SELECT ${names} FROM json_populate_recordset(NULL::${full}, $1::json)`
    await this.#rows({ text, values: [JSON.stringify(rows)] })
  }

  async settings(): Promise<Record<string, number>> {
    const rows = await this.#rows({ text: `SELECT name, value FROM ${this.#schema}.settings` })
    const kept = rows.filter(({ name }) => KEPT_SETTINGS.includes(String(name)))
    return Object.fromEntries(kept.map(({ name, value }) => [String(name), Number(value)]))
  }

  async finish(settings: Record<string, number>): Promise<void> {
    const schema = this.#schema
    const set = `INSERT INTO ${schema}.settings (name, value) VALUES ($1, $2)
      ON CONFLICT (name) DO UPDATE SET value = excluded.value`
    for (const [name, value] of Object.entries(settings))
      await this.#rows({ text: set, values: [name, value] })
    for (const text of DERIVED) await this.#rows({ text: text.replaceAll('%S', schema) })
    for (const { name, sequence } of TABLES) {
      if (sequence === undefined) continue
      const table = `${schema}.${name}`
      await this.#rows({
        text: `SELECT setval(pg_get_serial_sequence($1, $2),
          (SELECT coalesce(max(${sequence}), 0) + 1 FROM ${table}), false)`,
        values: [table, sequence],
      })
    }
  }

  async ask(sql: string): Promise<Record<string, Value>[]> {
    const rows = await this.#rows({ text: sql.replaceAll('%S', this.#schema) })
    return rows.map((row) =>
      Object.fromEntries(Object.entries(row).map(([name, value]) => [name, plain(value)])),
    )
  }

  async commit(): Promise<void> {
    if (this.#lost) throw this.#lost
    await this.#rows({ text: 'COMMIT' })
  }

  async close(): Promise<void> {
    await this.#connection.ask([{ text: 'ROLLBACK' }])
    await this.#connection.close()
    await this.#leadership.resign()
    await this.#leadership.close()
  }

  async #rows(statement: Statement): Promise<readonly Row[]> {
    const [answer] = await this.#connection.ask([statement])
    if (answer?.status !== 'fulfilled') throw answer?.reason
    return answer.value.rows
  }
}

/** Columns that only PostgreSQL has. */
const OWN: Readonly<Record<string, readonly string[]>> = {
  jobs: ['error_code'],
  cron_templates: ['queue'],
  traffic: ['slot'],
}

/** As `json_populate_recordset` takes it, with what only PostgreSQL keeps beside. */
function objectOf({ name, columns }: Table, row: Values): Record<string, unknown> {
  const object: Record<string, unknown> = Object.fromEntries(
    columns.map((column, i) => [column.name, column.isFlag ? row[i] === 1 : row[i]]),
  )
  if (name === 'traffic') object['slot'] = 1
  if (name === 'jobs') object['error_code'] = errorKeyOf(object['error'] as string | null)
  if (name === 'cron_jobs') object['queue'] = queueOf(String(object['template']))
  return object
}

function queueOf(template: string): string {
  const { queue, options } = JSON.parse(template) as {
    queue?: string
    options?: { queue?: string }
  }
  return options?.queue ?? queue ?? 'default'
}

function isText(column: string): boolean {
  return ['id', 'name', 'queue', 'key', 'state', 'job_id', 'uri'].includes(column)
}

function plain(value: unknown): Value {
  return typeof value === 'boolean' ? Number(value) : (value as Value)
}

const DERIVED: readonly string[] = [
  `INSERT INTO %S.state_counts (slot, queue, state, count)
    SELECT 1, queue, state, count(*) FROM %S.jobs WHERE state <> 'withdrawn' GROUP BY queue, state
    UNION ALL SELECT 1, queue, 'dead_letter', count(*) FROM %S.jobs WHERE is_dead_letter GROUP BY queue
    UNION ALL SELECT 1, queue, 'with_native', count(*) FROM %S.jobs
      WHERE state = 'available' AND holder = 'native' GROUP BY queue
    UNION ALL SELECT 1, queue, 'held', count(*) FROM %S.jobs
      WHERE state = 'available' AND holder = 'ledger' GROUP BY queue`,
  `INSERT INTO %S.concurrency (key, active) SELECT concurrency_key, count(*) FROM %S.jobs
    WHERE concurrency_key IS NOT NULL AND state = 'active' GROUP BY concurrency_key`,
  `UPDATE %S.jobs j SET step = s.key FROM %S.workflow_steps s WHERE s.job_id = j.id`,
]
