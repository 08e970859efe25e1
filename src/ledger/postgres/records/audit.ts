/** Audit records: the newest of them. */
import type { AuditLedger, AuditPage, AuditReads, AuditRecord } from '../../audit.ts'
import type { Draft } from '../group/draft.ts'
import type { Groups } from '../group/groups.ts'
import type { PartDeps } from '../part.ts'
import type { Reader } from '../reader.ts'

/** Some 250 bytes each. */
const KEPT = 10_000

export class PostgresAudit implements AuditLedger, AuditReads {
  readonly #groups: Groups
  readonly #reader: Reader
  readonly #table: string

  constructor({ groups, reader, schema }: PartDeps) {
    this.#groups = groups
    this.#reader = reader
    this.#table = `${schema}.audit`
  }

  append(record: AuditRecord): Promise<void> {
    return this.#groups.write({ wants: {}, run: (draft) => append(draft, record) })
  }

  async list({ before, limit, key }: AuditPage): ReturnType<AuditReads['list']> {
    await this.#groups.written()
    const ofKey = `WHERE key = $3`
    const end = `number < $1`
    const page = `SELECT number, at, request_id AS "requestId", key, role, address, method, route, path,
        status FROM ${this.#table} ${key === null ? `WHERE ${end}` : `${ofKey} AND ${end}`}
      ORDER BY number DESC LIMIT $2`
    const total =
      key === null
        ? `SELECT coalesce((SELECT max(number) FROM ${this.#table})
            - (SELECT min(number) FROM ${this.#table}) + 1, 0)`
        : `SELECT count(*) FROM ${this.#table} ${ofKey}`
    const values = [before ?? Number.MAX_SAFE_INTEGER, limit, ...(key === null ? [] : [key])]
    const found = await this.#reader.page(total, page, values)
    return { records: found.rows as (AuditRecord & { number: number })[], total: found.total }
  }
}

function append(draft: Draft, record: AuditRecord): void {
  const { changes, memory } = draft
  const number = (changes.valueIn(memory.numbers, 'audit') ?? 0) + 1
  changes.setIn(memory.numbers, 'audit', number, null)
  changes.gather(STORED, { ...record, number })
}

/** All of a group at once. */
const STORED = {
  statements(schema: string, records: readonly (AuditRecord & { number: number })[]) {
    const text = `INSERT INTO ${schema}.audit
      SELECT number, at, "requestId", key, role, address, method, route, path, status
      FROM json_to_recordset($1) AS n (number bigint, at bigint, "requestId" text, key text, role text,
        address text, method text, route text, path text, status int)`
    const last = Math.max(...records.map(({ number }) => number))
    const prune = `DELETE FROM ${schema}.audit WHERE number <= $1`
    return [
      { text, values: [JSON.stringify(records)] },
      { text: prune, values: [last - KEPT] },
    ]
  },
}
