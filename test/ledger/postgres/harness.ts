import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll } from 'vitest'
import { readHistory } from '../../../src/job/history/changes.ts'
import { isTerminal, JOB_STATES, type JobState, type RowState } from '../../../src/job/job.ts'
import { canBecome } from '../../../src/job/states.ts'
import { snakeCase } from '../../../src/job/values/snake-case.ts'
import type { StateCounts } from '../../../src/ledger/known.ts'
import type { Connection, Statement } from '../../../src/ledger/postgres/connection.ts'
import type { Draft } from '../../../src/ledger/postgres/group/draft.ts'
import { Groups } from '../../../src/ledger/postgres/group/groups.ts'
import { Memory } from '../../../src/ledger/postgres/group/memory.ts'
import { isNodeOf } from '../../../src/ledger/postgres/group/workflows.ts'
import { pruneKeptKeys } from '../../../src/ledger/postgres/keyed/kept-keys.ts'
import type { PostgresLedger } from '../../../src/ledger/postgres/ledger.ts'
import { migrate } from '../../../src/ledger/postgres/migrations.ts'
import { openPostgresLedger } from '../../../src/ledger/postgres/open.ts'
import { Reader } from '../../../src/ledger/postgres/reader.ts'
import { PostgresIdempotency } from '../../../src/ledger/postgres/records/idempotency.ts'
import { schemaOf } from '../../../src/ledger/postgres/schema.ts'
import { Slot } from '../../../src/ledger/postgres/slot.ts'
import { SILENT } from '../../support/time/silent.ts'
import type { LedgerHarness, Planted } from '../harness.ts'
import { addressOf, connectTo, rowsOf, sharedPostgres } from './server.ts'

/** Opens harnesses for the tests of the file that calls this, which share a schema one after the other. */
export function postgresHarnesses(): () => Promise<LedgerHarness> {
  const url = sharedPostgres()
  const prefix = `c${randomUUID().slice(0, 8)}`
  const kept = new KeptConnections(url)
  const connect = () => kept.connect()
  let admin: Connection
  let emptying: Statement
  beforeAll(async () => {
    admin = await connectTo(url())
    await migrate(admin, schemaOf(prefix))
    emptying = await emptyingOf(admin, schemaOf(prefix))
  })
  afterAll(async () => {
    await kept.close()
    await rowsOf(admin, `DROP SCHEMA IF EXISTS ${schemaOf(prefix)} CASCADE`)
    await admin.close()
  })
  return async () => {
    const options = { address: addressOf(url()), prefix, logger: SILENT, connect }
    const open = () => openPostgresLedger(options)
    await all(admin, [emptying])
    return new SchemaHarness(admin, schemaOf(prefix), open, connect, await open())
  }
}

/**
 * Connections that a ledger has closed serve the next one: a new one costs both sides some 30 ms, and the server
 * has to look up and plan everything again.
 */
class KeptConnections {
  readonly #url: () => string
  readonly #free: Connection[] = []
  readonly #closing: (() => Promise<void>)[] = []

  constructor(url: () => string) {
    this.#url = url
  }

  async connect(): Promise<Connection> {
    const free = this.#free.pop()
    if (free !== undefined) return free
    const connection = await connectTo(this.#url())
    this.#closing.push(connection.close.bind(connection))
    connection.close = async () => {
      this.#free.push(connection)
    }
    return connection
  }

  async close(): Promise<void> {
    await Promise.all(this.#closing.map((close) => close()))
  }
}

/** Not these: the next ledger goes on from them. */
const LASTING = ['schema_version', 'slots', 'gateways']

async function emptyingOf(admin: Connection, schema: string): Promise<Statement> {
  const text = `SELECT tablename AS name FROM pg_tables
    WHERE schemaname = $1 AND tablename <> ALL($2::text[])`
  const tables = await rowsOf(admin, text, [schema.replaceAll('"', ''), LASTING])
  // Quicker than TRUNCATE for a few rows.
  return { text: tables.map(({ name }) => `DELETE FROM ${schema}.${name}`).join('; ') }
}

/** Sends all of them in one flush; throws why one failed. */
async function all(connection: Connection, statements: readonly Statement[]): Promise<void> {
  const failed = (await connection.ask(statements)).find(({ status }) => status === 'rejected')
  if (failed?.status === 'rejected') throw failed.reason
}

type Beside = ConstructorParameters<typeof PostgresIdempotency>[0]

class SchemaHarness implements LedgerHarness {
  readonly #admin: Connection
  readonly #schema: string
  readonly #open: () => Promise<PostgresLedger>
  readonly #connect: () => Promise<Connection>
  #ledger: PostgresLedger

  constructor(
    admin: Connection,
    schema: string,
    open: () => Promise<PostgresLedger>,
    connect: () => Promise<Connection>,
    ledger: PostgresLedger,
  ) {
    this.#admin = admin
    this.#schema = schema
    this.#open = open
    this.#connect = connect
    this.#ledger = ledger
  }

  get ledger(): PostgresLedger {
    return this.#ledger
  }

  async reopen(): Promise<void> {
    await this.#ledger.close()
    this.#ledger = await this.#open()
  }

  async plant(rows: readonly Planted[]): Promise<void> {
    await this.#ledger.close()
    await all(this.#admin, [...rows.flatMap((row) => this.#planted(row)), ...this.#stored()])
    this.#ledger = await this.#open()
  }

  #planted({ id, ...change }: Planted): Statement[] {
    const ended = change.state && isTerminal(change.state) ? { endedAt: 1 } : {}
    const all = Object.entries({ ...change, ...ended, history: '' })
    const isText = (name: string) =>
      ['carry', 'error', 'errors', 'result', 'envelope'].includes(name)
    const [texts, rows] = [
      all.filter(([name]) => isText(name)),
      all.filter(([name]) => !isText(name)),
    ]
    return [...this.#updated('job_bodies', id, texts), ...this.#updated('jobs', id, rows)]
  }

  #updated(table: string, id: string, columns: readonly [string, unknown][]): Statement[] {
    if (columns.length === 0) return []
    const set = columns.map(([name], i) => `${snakeCase(name)} = $${i + 2}`).join(', ')
    const values = [id, ...columns.map(([, value]) => value)]
    return [{ text: `UPDATE ${this.#schema}.${table} SET ${set} WHERE id = $1`, values }]
  }

  #stored(): Statement[] {
    const table = `${this.#schema}.state_counts`
    return [
      { text: `DELETE FROM ${table}` },
      { text: `INSERT INTO ${table} ${this.#counted('5')}` },
    ]
  }

  /** `slot`: any: only the sums count. */
  #counted(slot: string): string {
    const of = (
      state: string,
      where: string,
    ) => `SELECT ${slot}::int AS slot, queue, ${state} AS state,
      count(*) AS count FROM ${this.#schema}.jobs WHERE ${where} GROUP BY 2, 3`
    return [
      of('state', `state <> 'withdrawn'`),
      of(`'dead_letter'`, 'is_dead_letter'),
      of(`'with_native'`, `state = 'available' AND holder = 'native'`),
      of(`'held'`, `state = 'available' AND holder = 'ledger'`),
    ].join(' UNION ALL ')
  }

  async recount(): ReturnType<LedgerHarness['recount']> {
    const counted = await rowsOf(this.#admin, this.#counted('0'))
    const byState = (state: string) =>
      new Map<string, number>(
        counted.filter((row) => row['state'] === state).map(({ queue, count }) => [queue, count]),
      )
    const states = new Map<string, StateCounts>()
    for (const { queue } of counted) {
      const of = (state: JobState) => [state, byState(state).get(queue) ?? 0] as const
      states.set(queue, Object.fromEntries(JOB_STATES.map(of)) as StateCounts)
    }
    const [native, held] = [byState('with_native'), byState('held')]
    const claimable = [...states].map(
      ([queue, { available }]) =>
        [queue, available - (native.get(queue) ?? 0) - (held.get(queue) ?? 0)] as const,
    )
    return {
      states,
      deadLetters: byState('dead_letter'),
      claimable: new Map(claimable),
      held,
      keys: await this.#keys(),
    }
  }

  async #keys(): Promise<Awaited<ReturnType<LedgerHarness['recount']>>['keys']> {
    const of = async (what: string) => {
      const rows = await rowsOf(this.#admin, `SELECT ${what}`)
      return new Map(rows.map(({ key, active }) => [String(key), Number(active)]))
    }
    return {
      kept: await of(`key, active FROM ${this.#schema}.concurrency`),
      counted: await of(`concurrency_key AS key, count(*) AS active FROM ${this.#schema}.jobs
        WHERE concurrency_key IS NOT NULL AND state = 'active' GROUP BY 1`),
    }
  }

  async inspect(): Promise<string[]> {
    const { jobs, bodies } = { jobs: `${this.#schema}.jobs`, bodies: `${this.#schema}.job_bodies` }
    const rows = await rowsOf(
      this.#admin,
      `SELECT id || ' is ' || state || ', ended at ' || coalesce(ended_at::text, 'never') AS wrong
       FROM ${jobs} WHERE (ended_at IS NULL) = (state IN ('completed', 'cancelled', 'discarded', 'withdrawn'))
       UNION ALL SELECT id || ' is ' || state || ' and a dead letter' FROM ${jobs}
       WHERE is_dead_letter AND state <> 'discarded'
       UNION ALL SELECT coalesce(j.id, b.id) || ' has only one of row and texts'
       FROM ${jobs} j FULL JOIN ${bodies} b USING (id) WHERE j.id IS NULL OR b.id IS NULL
       UNION ALL ${wrongWorkflows(this.#schema)}`,
    )
    return [...rows.map(({ wrong }) => String(wrong)), ...(await this.#wrongHistories())]
  }

  /** Rows whose recorded changes do not lead to their state, or not by way of the transition table. */
  async #wrongHistories(): Promise<string[]> {
    const text = `SELECT id, state, history FROM ${this.#schema}.jobs WHERE history <> ''`
    const rows = await rowsOf(this.#admin, text)
    return rows.flatMap(({ id, state, history }) => {
      const { changes } = readHistory(String(history))
      const wrong = changes
        .filter(({ from, to }) => from !== null && from !== to && !canBecome(from, to))
        .map(({ from, to }) => `${id} went from ${from} to ${to}`)
      const last: RowState | undefined = changes.at(-1)?.to
      return last === state ? wrong : [...wrong, `${id} is ${state}, by its history ${last}`]
    })
  }

  async pruneKeys(capacity: number, now: number, limit: number): Promise<number> {
    return await this.#beside(async (parts) => {
      return await new PostgresIdempotency(parts, capacity).prune(now, limit)
    })
  }

  async pruneKeptKeys(capacity: number, now: number, limit: number): Promise<number> {
    const schema = this.#schema
    const counted = await rowsOf(this.#admin, `SELECT count(*) AS n FROM ${schema}.kept_keys`)
    return await this.#beside(async ({ groups, memory }) => {
      memory.keptKeys = Number(counted[0]?.['n'])
      const run = (draft: Draft) => pruneKeptKeys(draft, schema, now, limit, capacity)
      return await groups.write({ wants: {}, run, isAlone: true })
    })
  }

  /** Through a slot of its own. */
  async #beside<T>(use: (parts: Beside) => Promise<T>): Promise<T> {
    const schema = this.#schema
    const slot = new Slot({ schema, id: 2, owner: randomUUID(), connect: this.#connect })
    const reader = new Reader(this.#connect)
    const memory = new Memory(0, Date.now)
    await slot.take()
    const groups = new Groups({
      slot,
      slotId: 2,
      schema,
      memory,
      endStep: () => undefined,
      logger: SILENT,
    })
    try {
      return await use({ groups, reader, memory, schema })
    } finally {
      await groups.close()
    }
  }

  async countedQueues(): Promise<string[]> {
    const text = `SELECT DISTINCT queue FROM ${this.#schema}.state_counts`
    return (await rowsOf(this.#admin, text)).map(({ queue }) => String(queue))
  }

  async destroy(): Promise<void> {
    await this.#ledger.close()
  }
}

/** Workflows that cannot go on, or that contradict their steps and jobs. */
function wrongWorkflows(schema: string): string {
  const steps = `${schema}.workflow_steps s`
  const ofWorkflow = isNodeOf('s.key', 'w.id')
  return `
    SELECT 'workflow ' || w.id || ' is ' || state || ' and has steps that '
      || CASE WHEN state = 'running' THEN 'are all over' ELSE 'go on' END
    FROM ${schema}.workflows w WHERE (state = 'running') <> EXISTS (
      SELECT 1 FROM ${steps} WHERE ${ofWorkflow} AND progress = 'started')
    UNION ALL
    SELECT 'workflow ' || w.id || ' is ' || w.state || ' and step ' || s.step_id || ' waits'
    FROM ${schema}.workflows w JOIN ${steps} ON ${ofWorkflow}
    WHERE w.state <> 'running' AND s.progress = 'waiting'
    UNION ALL
    SELECT 'step ' || s.step_id || ' is ' || s.progress || ' and its job ' || j.state
    FROM ${steps} JOIN ${schema}.jobs j ON j.id = s.job_id
    WHERE s.progress = 'started' AND j.ended_at IS NOT NULL
    UNION ALL
    SELECT 'workflow ' || w.id || ' counts wrongly' FROM ${schema}.workflows w
    WHERE (w.open, w.completed, w.failed) <> (
      SELECT count(*) FILTER (WHERE progress IN ('waiting', 'started')),
        count(*) FILTER (WHERE progress = 'completed'), count(*) FILTER (WHERE progress = 'failed')
      FROM ${steps} WHERE ${ofWorkflow} AND type IS NOT NULL AND NOT is_callback)`
}
