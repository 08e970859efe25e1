/** Opens a ledger on PostgreSQL: migrates it, takes its slot, and reads what is kept in memory. */
import { randomUUID } from 'node:crypto'
import { retryQueueKey } from '../../job/retry/backoff.ts'
import type { Logger } from '../../logger.ts'
import type { LedgerClock } from './clock.ts'
import { type Connection, connectWritable, type Row } from './connection.ts'
import { Durability } from './durability.ts'
import { ENTRIES, TEMPLATES } from './group/cron.ts'
import { ACTIVE } from './group/lines.ts'
import { type Counted, Memory } from './group/memory.ts'
import { CHECKPOINTS, PROGRESS, RESULT_ENDS } from './group/notes.ts'
import { OPERATIONS } from './group/operations.ts'
import { ERRORS, FEEDS, SOURCES, STEPS, WORKFLOWS } from './group/workflows.ts'
import type { Leadership } from './leadership.ts'
import { PostgresLedger } from './ledger.ts'
import { migrate } from './migrations.ts'
import { rememberQueues } from './queues/remember.ts'
import { Reader } from './reader.ts'
import { IDEMPOTENCY_KEYS } from './records/idempotency.ts'
import { rememberRecords } from './records/remember.ts'
import { schemaOf } from './schema.ts'
import { Slot } from './slot.ts'
import type { PostgresPlace } from './stand-by.ts'
import { standingOf } from './standing.ts'

export interface PostgresLedgerOptions extends PostgresPlace {
  logger: Logger
  /** Its holder opens the ledger. Absent: nobody else does, and whoever opened it before is fenced. */
  leadership?: Leadership
  clock?: LedgerClock
  /** Absent: the clock's. */
  wall?: () => number
  /** Absent: to the first writable host of the address. */
  connect?: () => Promise<Connection>
  /** The operator says that the storage below PostgreSQL is replicated. */
  isStorageReplicated?: boolean
}

const TIMEOUTS = { connectMs: 5_000, answerMs: 30_000 }
/** One gateway writes, through one connection. */
const SLOT = 1
/** Side tables: where one is empty, nobody looks for its rows. */
const SIDES = [
  ...[WORKFLOWS, STEPS, FEEDS, SOURCES, ERRORS],
  IDEMPOTENCY_KEYS,
  CHECKPOINTS,
  PROGRESS,
  RESULT_ENDS,
  OPERATIONS,
  ENTRIES,
  TEMPLATES,
  ACTIVE,
]
/** How many nonces each start of a gateway has. */
const NONCES = 2 ** 32

export async function openPostgresLedger(options: PostgresLedgerOptions): Promise<PostgresLedger> {
  const { address, prefix, logger, leadership, clock } = options
  const schema = schemaOf(prefix)
  const connect = options.connect ?? (() => connectWritable(address, TIMEOUTS))
  await migrated(connect, schema)
  const owner = leadership?.owner ?? randomUUID()
  const needsLease = leadership !== undefined
  const slot = new Slot({ schema, id: SLOT, owner, connect, needsLease })
  const mayRead = async () => (await leadership?.mayServe()) ?? true
  const reader = new Reader(connect, mayRead)
  const searcher = new Reader(connect, mayRead)
  const durability = new Durability({
    rows: (text) => reader.rows(text),
    isStorageReplicated: options.isStorageReplicated ?? false,
  })
  try {
    // First the slot: from then on nobody else changes what is read.
    await slot.take()
    const wall = options.wall ?? (() => clock?.wall() ?? Date.now())
    const memory = await remembered(schema, reader, owner, wall)
    await durability.start()
    return new PostgresLedger({
      ...{ schema, slot, slotId: SLOT, reader, searcher, memory, logger },
      standing: standingOf(durability, leadership, clock),
      onFenced: () => leadership?.lost(),
      onClose: () => durability.stop(),
    })
  } catch (error) {
    durability.stop()
    await Promise.all([slot.close(), reader.close(), searcher.close()])
    throw error
  }
}

async function migrated(connect: () => Promise<Connection>, schema: string): Promise<void> {
  const connection = await connect()
  try {
    await migrate(connection, schema)
  } finally {
    await connection.close()
  }
}

/** Registers this start of the gateway, and reads what is kept in memory. */
async function remembered(
  schema: string,
  reader: Reader,
  owner: string,
  wall: () => number,
): Promise<Memory> {
  const text = `INSERT INTO ${schema}.gateways (owner) VALUES ($1) RETURNING incarnation`
  const [row] = await reader.rows(text, [owner])
  const memory = new Memory(Number(row?.['incarnation']) * NONCES, wall)
  const all = (what: string) => reader.rows(`SELECT ${what}`)
  fill(memory, {
    counts: await all(`queue, state, sum(count)::bigint AS count FROM ${schema}.state_counts
      GROUP BY queue, state HAVING sum(count) <> 0`),
    queues: await all(
      `name, created_at, lost_at, has_stale_copies FROM ${schema}.queues ORDER BY seq`,
    ),
    retryQueues: await all(`queue, delay_ms FROM ${schema}.retry_queues`),
    tombstones: await all(`count(*) AS count FROM ${schema}.tombstones`),
    keptKeys: await all(`count(*) AS count FROM ${schema}.kept_keys`),
    unwritten: await all(`name FROM ${schema}.unwritten_queues`),
  })
  for (const { name } of SIDES) {
    if ((await all(`1 FROM ${schema}.${name} LIMIT 1`)).length > 0) memory.usedSides.add(name)
  }
  for (const { state, count } of await all(
    `state, count(*) AS count FROM ${schema}.workflows GROUP BY state`,
  ))
    memory.addWorkflows(state, Number(count))
  await rememberQueues(memory, schema, reader)
  await rememberRecords(memory, schema, reader)
  return memory
}

type Found = Record<
  'counts' | 'queues' | 'retryQueues' | 'unwritten' | 'tombstones' | 'keptKeys',
  readonly Row[]
>

function fill(memory: Memory, found: Found): void {
  const { counts, queues, retryQueues, unwritten, tombstones, keptKeys } = found
  memory.tombstones = Number(tombstones[0]?.['count'])
  memory.keptKeys = Number(keptKeys[0]?.['count'])
  for (const { queue, state, count } of counts) memory.add(queue, state as Counted, Number(count))
  for (const { name, created_at, lost_at, has_stale_copies } of queues) {
    memory.queues.set(name, { name, createdAt: created_at })
    if (lost_at !== null) memory.lost.add(name)
    if (has_stale_copies) memory.stale.set(name, 0)
  }
  for (const { queue, delay_ms: delayMs } of retryQueues)
    memory.retryQueues.set(retryQueueKey(queue, delayMs), { queue, delayMs })
  for (const { name } of unwritten) memory.unwritten.add(name)
}
