import { randomUUID } from 'node:crypto'
import { expect, it, onTestFinished } from 'vitest'
import type { Steering } from '../../../src/job/steer.ts'
import type { PostgresLedger } from '../../../src/ledger/postgres/ledger.ts'
import { openPostgresLedger } from '../../../src/ledger/postgres/open.ts'
import { TcpProxy } from '../../support/broker/tcp-proxy.ts'
import { newGraph } from '../../support/gateway/workflows.ts'
import { SILENT } from '../../support/time/silent.ts'
import { FAILED, jobMessage, NOW, TERMS } from '../harness.ts'
import { addressOf, sharedPostgres } from './server.ts'

const url = sharedPostgres()

/** Each of them takes several loads of its own. */
const MANY = 200
/** What is sent to PostgreSQL for a write of one such job, with some to spare; far less than for each of many. */
const MOST_SENT = 60

/** A ledger, and what counts how often it has sent something to PostgreSQL. */
async function opened(): Promise<{ ledger: PostgresLedger; sentFor: SentFor }> {
  let sent = 0
  const proxy = await TcpProxy.start(url(), (_, direction) => {
    if (direction === 'to-broker') sent += 1
  })
  const prefix = `m${randomUUID().slice(0, 8)}`
  const ledger = await openPostgresLedger({ address: addressOf(proxy.url), prefix, logger: SILENT })
  onTestFinished(async () => {
    await ledger.close()
    await proxy.stop()
  })
  const sentFor: SentFor = async (write) => {
    sent = 0
    const results = await write()
    return { results, sent }
  }
  return { ledger, sentFor }
}

type SentFor = <T>(write: () => Promise<T[]>) => Promise<{ results: T[]; sent: number }>

/** The jobs of first steps of as many workflows. */
async function steps(ledger: PostgresLedger): Promise<string[]> {
  const graphs = Array.from({ length: MANY }, () => newGraph({ a: [], b: ['a'] }))
  await Promise.all(graphs.map((graph) => ledger.workflows.create(graph, NOW)))
  const found = await Promise.all(graphs.map(({ id }) => ledger.read.workflows.find(id)))
  return found.map((workflow) => workflow?.steps.find(({ id }) => id === 'a')?.jobId ?? '')
}

const started = async (ledger: PostgresLedger) => {
  const ids = await steps(ledger)
  await ledger.claim(
    ids.map((id) => jobMessage(id)),
    TERMS,
  )
  return ids
}

const BEAT = { workerId: 'w', leaseMs: null, defaultLeaseMs: 30_000, now: NOW, wall: NOW }
const REPORT = { now: NOW, defaultLeaseMs: 30_000, random: () => 0.5 }
const ACT = { now: NOW, wall: NOW, cause: {}, maxMs: 60_000 }
const DEAD = { to: 'discarded', isDeadLetter: true, copy: 'publish' } as const
const CANCEL: Steering = {
  ...{ action: 'cancel', states: ['available'] },
  ...{ deadLettersOnly: false, sparesRetried: false, scope: null },
}

it.each<[string, (ledger: PostgresLedger, ids: string[]) => Promise<unknown[]>, typeof steps]>([
  ['a heartbeat that begins', (ledger, ids) => ledger.beatNative(ids, BEAT), steps],
  [
    'a report that completes',
    (ledger, ids) => {
      const said = { event: 'completed', result: '1' } as const
      const events = ids.map((id) => ({ id, generation: 0, attempt: 1, workerId: 'w', said }))
      return ledger.applyReports(events, REPORT)
    },
    steps,
  ],
  ['a cancel of', (ledger, ids) => ledger.bulk.act(ids, CANCEL, ACT), steps],
  [
    'the end of the leases of',
    (ledger) => {
      const overdue = { now: NOW + 86_400_000, limit: MANY, which: 'all' } as const
      return ledger.endOverdue(overdue, () => ({ ...FAILED, ...DEAD }))
    },
    started,
  ],
])('%s many steps of workflows loads what they lack together', async (_what, write, made) => {
  const { ledger, sentFor } = await opened()
  const ids = await made(ledger)
  const { results, sent } = await sentFor(() => write(ledger, ids))
  expect(results).toHaveLength(MANY)
  expect(new Set(ids).size).toBe(MANY)
  expect(sent).toBeLessThan(MOST_SENT)
})

it('the cancel of a workflow of many steps loads what their ends read together', async () => {
  const { ledger, sentFor } = await opened()
  const steps = Array.from({ length: MANY }, (_, i) => [`s${i}`, []] as const)
  const graph = newGraph({ ...Object.fromEntries(steps), end: steps.map(([id]) => id) })
  await ledger.workflows.create(graph, NOW)
  const { sent } = await sentFor(async () => [await ledger.workflows.cancel(graph.id, NOW)])
  expect(ledger.known.counts('default')).toMatchObject({ available: 0, cancelled: MANY })
  expect(sent).toBeLessThan(MOST_SENT)
})
