/** When the ledger was used, and the epochs that RabbitMQ knows it by. */
import type { LedgerEpochs } from '../../ledger.ts'
import type { EpochReads } from '../../reads.ts'
import type { Groups } from '../group/groups.ts'
import type { PartDeps } from '../part.ts'
import type { Reader } from '../reader.ts'

export class PostgresEpochs implements LedgerEpochs, EpochReads {
  readonly #groups: Groups
  readonly #reader: Reader
  readonly #table: string
  readonly #traffic: string

  constructor({ groups, reader, schema }: PartDeps) {
    this.#groups = groups
    this.#reader = reader
    this.#table = `${schema}.settings`
    this.#traffic = `${schema}.traffic`
  }

  async all(): Promise<number[]> {
    const text = `SELECT value FROM ${this.#table}
      WHERE name IN ('epoch', 'epoch_before') AND value > 0 ORDER BY name`
    return (await this.#reader.rows(text)).map(({ value }) => Number(value))
  }

  record(epoch: number, before: number): Promise<void> {
    return this.#set({ epoch, epoch_before: before })
  }

  async seenAt(): Promise<number | null> {
    // Nobody has noted it yet (0: copied from such a file): the newest minute with traffic.
    const text = `SELECT coalesce(
      (SELECT value FROM ${this.#table} WHERE name = 'seen_at' AND value > 0),
      (SELECT max(at) * 60000 FROM ${this.#traffic} WHERE span_ms = 60000)) AS value`
    const [row] = await this.#reader.rows(text)
    return row?.['value'] ?? null
  }

  noteSeen(now: number): Promise<void> {
    return this.#set({ seen_at: now })
  }

  #set(settings: Record<string, number>): Promise<void> {
    const text = `INSERT INTO ${this.#table} (name, value)
      SELECT * FROM unnest($1::text[], $2::bigint[])
      ON CONFLICT (name) DO UPDATE SET value = excluded.value`
    const values = [Object.keys(settings), Object.values(settings)]
    return this.#groups.write({
      wants: {},
      run: ({ changes }) => changes.store({ text, values }),
    })
  }
}
