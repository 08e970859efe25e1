/** Either ledger as tables, for one who has it alone. */
import type { Table } from './tables.ts'

export type Value = string | number | null
/** In the order of the table's columns. Truth values are 0 and 1. */
export type Values = readonly Value[]

export interface Store {
  /** For people: no password. */
  readonly shown: string
  /** Whether it has neither jobs nor anything else. */
  isEmpty(): Promise<boolean>
  /** The rows, in the order of the table's key, by pages. */
  read(table: Table): AsyncIterable<readonly Values[]>
  write(table: Table, rows: readonly Values[]): Promise<void>
  settings(): Promise<Record<string, number>>
  /** After all tables: counts, sequences and whatever else follows from the rows. */
  finish(settings: Record<string, number>): Promise<void>
  /** Rows of a query that both ledgers understand. `%S` stands before the names of tables. */
  ask(sql: string): Promise<Record<string, Value>[]>
  /** Keeps what was written. */
  commit(): Promise<void>
  /** Lets go; what was not committed is gone. */
  close(): Promise<void>
}
