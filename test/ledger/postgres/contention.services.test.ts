import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { LedgerClock } from '../../../src/ledger/postgres/clock.ts'
import type { Connection } from '../../../src/ledger/postgres/connection.ts'
import { Leadership } from '../../../src/ledger/postgres/leadership.ts'
import type { PostgresLedger } from '../../../src/ledger/postgres/ledger.ts'
import { migrate } from '../../../src/ledger/postgres/migrations.ts'
import { openPostgresLedger } from '../../../src/ledger/postgres/open.ts'
import { schemaOf } from '../../../src/ledger/postgres/schema.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import { IS_SOAK } from '../../support/soak.ts'
import { SILENT } from '../../support/time/silent.ts'
import { fetched, NOW, pushed } from '../harness.ts'
import { addressOf, connectTo, rowsOf, sharedPostgres } from './server.ts'
import { type Point, StatementGate } from './statement-gate.ts'

const url = sharedPostgres()
const prefix = `x${randomUUID().slice(0, 8)}`
const schema = schemaOf(prefix)

let admin: Connection
let gate: StatementGate
beforeAll(async () => {
  admin = await connectTo(url())
  await migrate(admin, schema)
  gate = await StatementGate.start(url())
})
beforeEach(async () => {
  await rowsOf(admin, `DELETE FROM ${schema}.leader`)
})
afterAll(async () => {
  await gate.stop()
  await rowsOf(admin, `DROP SCHEMA IF EXISTS ${schema} CASCADE`)
  await admin.close()
})

interface Gateway {
  leadership: Leadership
  ledger: PostgresLedger
  /** Whether it has been told that another one is active. */
  isLost(): boolean
}

/** Takes the lease, as if the one before had ended, and opens the ledger through `at`. */
async function takeOver(at: string): Promise<Gateway> {
  const clock = new LedgerClock()
  const owner = randomUUID()
  const leadership = new Leadership({
    ...{ schema, clock, owner, logger: SILENT, url: () => `http://${owner}` },
    connect: () => connectTo(url()),
  })
  onTestFinished(() => leadership.close())
  // Again if the one before was faster, which is alive.
  await eventually(async () => {
    await rowsOf(admin, `UPDATE ${schema}.leader SET until = clock_timestamp()`)
    return await leadership.take()
  })
  const connect = () => connectTo(at)
  const given = { address: addressOf(at), prefix, logger: SILENT, leadership, clock, connect }
  const ledger = await openPostgresLedger(given)
  onTestFinished(() => ledger.close())
  let isLost = false
  leadership.keep(() => {
    isLost = true
  })
  return { leadership, ledger, isLost: () => isLost }
}

/** Several writes that share one group, and how to tell whether all of them, or none, was done. */
interface Writes {
  begin(): Promise<PromiseSettledResult<unknown>[]>
  /** How many of the writes the ledger shows. */
  done(ledger: PostgresLedger): Promise<number>
  count: number
}

async function writesOf(ledger: PostgresLedger): Promise<Writes> {
  const [running, waiting] = [await fetched(ledger), await pushed(ledger)]
  const [one, two] = [newJob(), newJob({ queue: `q-${running.id}` })]
  const begin = () =>
    Promise.allSettled([
      ledger.insert(one, NOW),
      ledger.complete(running.id, {}, { now: NOW, result: '1' }),
      ledger.insertAll([two], NOW),
      ledger.cancel(waiting.id, NOW),
      ledger.recordRetryQueue({ queue: two.queue, delayMs: 500 }),
    ])
  const done = async ({ read, known }: PostgresLedger) => {
    const states = await Promise.all(
      [one.id, running.id, two.id, waiting.id].map(async (id) => (await read.find(id))?.state),
    )
    const isRecorded = known.retryQueues().some(({ queue }) => queue === two.queue)
    const changed = ['available', 'completed', 'available', 'cancelled']
    return states.filter((state, i) => state === changed[i]).length + (isRecorded ? 1 : 0)
  }
  return { begin, done, count: 5 }
}

/** A gateway whose group of writes has come to this point, and no further. */
async function stoppedAt(point: PointOfGroup): Promise<{
  old: Gateway
  writes: Writes
  begun: ReturnType<Writes['begin']>
}> {
  const old = await takeOver(gate.url)
  const writes = await writesOf(old.ledger)
  const stopped = gate.stopAt(point)
  const begun = writes.begin()
  await stopped
  return { old, writes, begun }
}

/** What is kept in memory of each queue is what its rows say. */
async function expectCounted({ known }: PostgresLedger): Promise<void> {
  const text = `SELECT queue, state, count(*) AS n FROM ${schema}.jobs GROUP BY 1, 2`
  for (const { queue, state, n } of await rowsOf(admin, text))
    expect(known.counts(queue)[state as 'available'], `${queue} ${state}`).toBe(n)
}

/** Of the statement that takes the slot. */
const TAKING = '.slots AS old'
/** The statements of such a group, in order. */
let statements: readonly string[] = []
const fence = () => statements.findIndex((text) => text.includes('take_slot'))
const commit = () => statements.indexOf('COMMIT')

type PointOfGroup = Point & { statement: number }

/** Where a group can be stopped. In `npm test` only the points at which something else follows. */
const NAMED: readonly [string, () => PointOfGroup][] = [
  ['before BEGIN', () => ({ statement: 0, isAnswered: false })],
  ['behind the fence', () => ({ statement: fence(), isAnswered: true })],
  ['before COMMIT', () => ({ statement: commit(), isAnswered: false })],
  ['behind COMMIT', () => ({ statement: commit(), isAnswered: true })],
]
const MOST_STATEMENTS = 20
const ALL = Array.from({ length: MOST_STATEMENTS }, (_, statement) => statement).flatMap(
  (statement) =>
    [false, true].map((isAnswered): (typeof NAMED)[number] => [
      `${isAnswered ? 'behind' : 'before'} statement ${statement}`,
      () => ({ statement, isAnswered }),
    ]),
)
const POINTS = IS_SOAK ? ALL : NAMED

const isFenced = ({ statement, isAnswered }: PointOfGroup) =>
  statement < fence() || (statement === fence() && !isAnswered)
const isCommitted = ({ statement, isAnswered }: PointOfGroup) =>
  statement === commit() && isAnswered

/** Resolves when the take-over has succeeded, or waits for the slot because the group has it. */
async function comesToRest(takingOver: Promise<Gateway>, point: PointOfGroup): Promise<void> {
  if (isFenced(point) || isCommitted(point)) {
    await takingOver
    return
  }
  const text = `SELECT 1 FROM pg_stat_activity
    WHERE cardinality(pg_blocking_pids(pid)) > 0 AND query LIKE '%INSERT INTO ' || $1 || '.slots%'`
  await eventually(async () => (await rowsOf(admin, text, [schema])).length > 0)
}

/** It can neither write nor read, whatever comes, and its callers hear of it. */
async function expectOut({ ledger, isLost, leadership }: Gateway): Promise<void> {
  const before = await rowsOf(admin, `SELECT * FROM ${schema}.slots`)
  const late = newJob()
  const refused = { code: 'backend_error', status: 503 }
  await expect(ledger.insert(late, NOW)).rejects.toMatchObject(refused)
  await expect(ledger.written()).resolves.toBeUndefined()
  expect(ledger.known.fault()).not.toBeNull()
  expect(await rowsOf(admin, `SELECT * FROM ${schema}.slots`)).toEqual(before)
  expect(await rowsOf(admin, `SELECT 1 FROM ${schema}.jobs WHERE id = $1`, [late.id])).toEqual([])
  await eventually(isLost)
  expect(leadership.isHeld).toBe(false)
  await expect(ledger.read.find('any')).rejects.toMatchObject(refused)
}

/** The writes of a group have the same fate: true if all were answered, false if all were refused with 503. */
function answered(outcomes: readonly PromiseSettledResult<unknown>[]): boolean {
  const [first] = outcomes
  expect(new Set(outcomes.map(({ status }) => status)).size).toBe(1)
  for (const one of outcomes)
    if (one.status === 'rejected') expect(one.reason).toMatchObject({ status: 503 })
  return first?.status === 'fulfilled'
}

describe('a gateway that is taken over while a group of its writes is on the way', () => {
  beforeAll(async () => {
    const clock = new LedgerClock()
    const connect = () => connectTo(gate.url)
    const given = { address: addressOf(gate.url), prefix, logger: SILENT, clock, connect }
    const ledger = await openPostgresLedger(given)
    const writes = await writesOf(ledger)
    gate.watch()
    await writes.begin()
    statements = [...gate.texts]
    await ledger.close()
  })

  it('has sent them as one group', () => {
    expect(statements[0]).toContain('BEGIN')
    expect(commit()).toBe(statements.length - 1)
    expect(statements.length).toBeLessThanOrEqual(MOST_STATEMENTS)
  })

  it.each(POINTS)('%s, and goes on', async (_, pointOf) => {
    const point = pointOf()
    if (point.statement >= statements.length) return
    const { old, writes, begun } = await stoppedAt(point)
    const takingOver = takeOver(url())
    await comesToRest(takingOver, point)
    gate.release()
    const isAnswered = answered(await begun)
    const { ledger } = await takingOver
    // Behind the fence it has the slot until its COMMIT: whoever wants to take it waits.
    expect(isAnswered).toBe(!isFenced(point))
    expect(await writes.done(ledger)).toBe(isAnswered ? writes.count : 0)
    await expectCounted(ledger)
    await expectOut(old)
    await pushed(ledger)
    await expectCounted(ledger)
  })

  it.each(POINTS)('%s, and loses its connection', async (_, pointOf) => {
    const point = pointOf()
    if (point.statement >= statements.length) return
    const { old, writes, begun } = await stoppedAt(point)
    const takingOver = takeOver(url())
    await comesToRest(takingOver, point)
    gate.cut()
    const { ledger } = await takingOver
    // The slot keeps how far the one before came in it.
    expect(answered(await begun)).toBe(isCommitted(point))
    expect(await writes.done(ledger)).toBe(isCommitted(point) ? writes.count : 0)
    await expectCounted(ledger)
    await expectOut(old)
  })

  it.each(POINTS)('%s, and loses its connection before it is taken over', async (_, pointOf) => {
    const point = pointOf()
    if (point.statement >= statements.length) return
    const { old, writes, begun } = await stoppedAt(point)
    gate.cut()
    // The slot says whether the group was committed; if not, it is done again.
    expect(answered(await begun)).toBe(true)
    const { ledger } = await takeOver(url())
    expect(await writes.done(ledger)).toBe(writes.count)
    await expectCounted(ledger)
    await expectOut(old)
  })
})

describe('a gateway that takes over sees each group of the one before whole or not at all', () => {
  it.each<[string, Point, boolean]>([
    ['before it takes the slot', { statement: TAKING, isAnswered: false }, true],
    ['when it has taken the slot', { statement: TAKING, isAnswered: true }, false],
    ['before it reads the counts', { statement: '.state_counts', isAnswered: false }, false],
    ['when it has read the last', { statement: '.traffic WHERE', isAnswered: true }, false],
  ])('%s', async (_, point, isBefore) => {
    const old = await takeOver(url())
    const writes = await writesOf(old.ledger)
    const stopped = gate.stopAt(point)
    const takingOver = takeOver(gate.url)
    await stopped
    const isAnswered = answered(await writes.begin())
    gate.release()
    const { ledger } = await takingOver
    expect(isAnswered).toBe(isBefore)
    expect(await writes.done(ledger)).toBe(isBefore ? writes.count : 0)
    await expectCounted(ledger)
    await expectOut(old)
  })
})
