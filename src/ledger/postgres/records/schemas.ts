/** Registered schemas. */
import type { KeyedRequest } from '../../idempotency.ts'
import type { KnownSchemas } from '../../known.ts'
import type { SchemaReads } from '../../reads.ts'
import type { SchemaInserted, SchemaLedger, SchemaRecord, SchemaSummary } from '../../schemas.ts'
import { unlessRemembered } from '../../writes/remembered.ts'
import type { Row } from '../connection.ts'
import type { Draft } from '../group/draft.ts'
import type { Groups } from '../group/groups.ts'
import type { Memory } from '../group/memory.ts'
import type { PartDeps } from '../part.ts'
import type { Reader } from '../reader.ts'
import { keysOf, keyWanted } from './idempotency.ts'

const SUMMARY = 'uri, type, version, version_text AS text, created_at AS "createdAt"'

export class PostgresSchemas implements SchemaLedger, SchemaReads, KnownSchemas {
  readonly #groups: Groups
  readonly #reader: Reader
  readonly #memory: Memory
  readonly #table: string

  constructor({ groups, reader, memory, schema }: PartDeps) {
    this.#groups = groups
    this.#reader = reader
    this.#memory = memory
    this.#table = `${schema}.schemas`
  }

  insert(schema: SchemaRecord, max: number, request?: KeyedRequest): Promise<SchemaInserted> {
    const { uri, createdAt } = schema
    const answerOf = ({ outcome }: SchemaInserted) =>
      outcome === 'inserted' ? { ids: [uri], existing: [] } : null
    const run = (draft: Draft): SchemaInserted =>
      unlessRemembered(
        keysOf(draft),
        { request, now: createdAt },
        () => insert(draft, schema, max),
        answerOf,
      )
    const wants = request ? keyWanted(request) : {}
    return this.#groups.write({ wants, run, isAlone: true })
  }

  delete(uri: string): Promise<boolean> {
    return this.#groups.write({ wants: {}, run: (draft) => remove(draft, uri) })
  }

  registration(uri: string): number | null {
    return this.#memory.schemas.get(uri) ?? null
  }

  async find(uri: string): Promise<SchemaRecord | null> {
    const text = `SELECT ${SUMMARY}, content FROM ${this.#table} WHERE uri = $1`
    return recordOf((await this.#reader.rows(text, [uri]))[0])
  }

  async content(registration: number): Promise<string | null> {
    const text = `SELECT content FROM ${this.#table} WHERE registration = $1`
    return (await this.#reader.rows(text, [registration]))[0]?.['content'] ?? null
  }

  async list(limit: number, offset: number): Promise<{ schemas: SchemaSummary[]; total: number }> {
    const { rows, total } = await this.#reader.page(
      `SELECT count(*) FROM ${this.#table}`,
      `SELECT ${SUMMARY} FROM ${this.#table} ORDER BY registration LIMIT $1 OFFSET $2`,
      [limit, offset],
    )
    return { schemas: rows.map(summaryOf), total }
  }
}

function summaryOf({ uri, type, version, text, createdAt }: Row): SchemaSummary {
  return { uri, type, version: text ?? version, createdAt }
}

function recordOf(row: Row | undefined): SchemaRecord | null {
  return row === undefined ? null : { ...summaryOf(row), content: row['content'] }
}

/** In a group of its own. */
function insert(draft: Draft, schema: SchemaRecord, max: number): SchemaInserted {
  const { uri, type, version, content, createdAt } = schema
  const { memory, changes } = draft
  const table = `${draft.schema}.schemas`
  if (memory.schemas.has(uri)) {
    const text = `SELECT ${SUMMARY}, content FROM ${table} WHERE uri = $1`
    const existing = recordOf(draft.ask({ text, values: [uri] })[0])
    if (existing === null) throw new Error(`bug: the schema ${uri} is not stored`)
    return { outcome: 'taken', existing }
  }
  if (memory.schemas.size >= max) return { outcome: 'full' }
  const registration = draft.nextNonce()
  const [number, words] = typeof version === 'number' ? [version, null] : [0, version]
  const text = `INSERT INTO ${table}
    (registration, uri, type, version, version_text, content, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7)`
  const values = [registration, uri, type, number, words, content, createdAt]
  changes.setIn(memory.schemas, uri, registration, { text, values })
  return { outcome: 'inserted' }
}

function remove({ changes, memory, schema }: Draft, uri: string): boolean {
  if (changes.valueIn(memory.schemas, uri) === undefined) return false
  const text = `DELETE FROM ${schema}.schemas WHERE uri = $1`
  changes.setIn(memory.schemas, uri, undefined, { text, values: [uri] })
  return true
}
