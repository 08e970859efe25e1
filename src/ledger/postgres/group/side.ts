/** Rows beside those of the jobs: a table with a text key, from which a group loads and stores rows by their keys. */
import { snakeCase } from '../../../job/values/snake-case.ts'
import type { Row, Statement } from '../connection.ts'
import { withoutNul } from '../nul.ts'
import { inStatements } from './sizes.ts'

/** Of which rows of type `T` can be asked for; `columns` without the key. */
export interface SideTable<T> {
  name: string
  key: string
  columns: Readonly<Record<keyof T & string, 'text' | 'bigint' | 'boolean' | 'float8'>>
  /** A column that a row gets anew each time that it is stored, by its default. */
  renewed?: string
  /** Never there. */
  row?: T
}

/** A side table of whatever rows. */
export type AnySide = SideTable<never> & {
  columns: Readonly<Record<string, string>>
}

/** Rows of a side table that a write reads. */
export interface SideWant {
  table: AnySide
  keys: readonly string[]
}

/** By table, and by key. Null: there is none. */
export type SideRows = ReadonlyMap<AnySide, ReadonlyMap<string, object | null>>

/** The wants of several writes, one for each table. */
export function sidesTogether(all: readonly SideWant[]): SideWant[] {
  const tables = [...new Set(all.map(({ table }) => table))]
  return tables.map((table) => {
    const keys = all.flatMap((want) => (want.table === table ? want.keys : []))
    return { table, keys: [...new Set(keys)] }
  })
}

export function wanted<T extends object>(table: SideTable<T>, keys: readonly string[]): SideWant {
  return { table: table as unknown as AnySide, keys }
}

/** A SELECT without conditions, of rows with their `sideKey`. */
export function selectSide<T extends object>(schema: string, given: SideTable<T>): string {
  const table = given as unknown as AnySide
  const list = columnsOf(table).map((column) => `${snakeCase(column)} AS "${column}"`)
  return `SELECT ${table.key} AS "sideKey", ${list.join(', ')} FROM ${schema}.${table.name}`
}

/** Locks what it reads, in the order of the keys. */
export function readSide(schema: string, { table, keys }: SideWant): Statement {
  const { key } = table
  const text = `${selectSide(schema, table as SideTable<object>)}
    WHERE ${key} = ANY($1::text[]) ORDER BY ${key} FOR UPDATE`
  return { text, values: [withoutNul(keys)] }
}

/** The loaded rows, with these answers to `readSide` of the wants. */
export function withSides(
  before: SideRows,
  wants: readonly SideWant[],
  answers: readonly (readonly Row[])[],
): SideRows {
  const all = new Map(before)
  for (const [i, { table, keys }] of wants.entries()) {
    const rows = new Map(all.get(table))
    for (const key of keys) if (!rows.has(key)) rows.set(key, null)
    for (const { sideKey, ...row } of answers[i] ?? []) rows.set(String(sideKey), row)
    all.set(table, rows)
  }
  return all
}

/** What stores changed rows; null: deleted. */
export function storeSide(
  schema: string,
  table: AnySide,
  rows: ReadonlyMap<string, object | null>,
): Statement[] {
  const gone = [...rows].flatMap(([key, row]) => (row === null ? [key] : []))
  const kept = [...rows].flatMap(([key, row]) => (row === null ? [] : [{ key, row }]))
  const { name, key } = table
  const forget = { text: `DELETE FROM ${schema}.${name} WHERE ${key} = ANY($1::text[])` }
  return [
    ...(gone.length > 0 ? [{ ...forget, values: [gone] }] : []),
    ...inStatements(kept, lengthOf).map((some) => upsert(schema, table, some)),
  ]
}

function lengthOf({ row }: { row: object }): number {
  let length = 0
  for (const value of Object.values(row)) if (typeof value === 'string') length += value.length
  return length
}

function upsert(
  schema: string,
  table: AnySide,
  rows: readonly { key: string; row: object }[],
): Statement {
  const names = columnsOf(table)
  const columns = names.map(snakeCase)
  const types = ['text', ...names.map((name) => table.columns[name])]
  const lists = types.map((type, i) => `$${i + 1}::${type}[]`).join(', ')
  const renewed = table.renewed === undefined ? [] : [`${table.renewed} = DEFAULT`]
  const set = [...columns.map((column) => `${column} = excluded.${column}`), ...renewed].join(', ')
  const text = `INSERT INTO ${schema}.${table.name} (${[table.key, ...columns].join(', ')})
    SELECT * FROM unnest(${lists}) ON CONFLICT (${table.key}) DO UPDATE SET ${set}`
  const valuesOf = (name: string) => rows.map(({ row }) => (row as Row)[name])
  return { text, values: [rows.map(({ key }) => key), ...names.map(valuesOf)] }
}

function columnsOf(table: AnySide): string[] {
  return Object.keys(table.columns)
}
