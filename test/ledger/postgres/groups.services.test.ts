import { randomUUID } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import { v7 } from 'uuid'
import { afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import type { Draft } from '../../../src/ledger/postgres/group/draft.ts'
import { Groups } from '../../../src/ledger/postgres/group/groups.ts'
import { Memory } from '../../../src/ledger/postgres/group/memory.ts'
import type { PostgresLedger } from '../../../src/ledger/postgres/ledger.ts'
import { openPostgresLedger } from '../../../src/ledger/postgres/open.ts'
import { schemaOf } from '../../../src/ledger/postgres/schema.ts'
import { Slot } from '../../../src/ledger/postgres/slot.ts'
import { TcpProxy } from '../../support/broker/tcp-proxy.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import { SILENT } from '../../support/time/silent.ts'
import { fetched, jobMessage, NOW, pushed, settleLazily, TERMS } from '../harness.ts'
import { addressOf, connectTo, rowsOf, sharedPostgres } from './server.ts'

const url = sharedPostgres()
const open: PostgresLedger[] = []

async function opened(
  prefix = `g${randomUUID().slice(0, 8)}`,
  at = url(),
): Promise<PostgresLedger> {
  const ledger = await openPostgresLedger({ address: addressOf(at), prefix, logger: SILENT })
  open.push(ledger)
  return ledger
}

beforeAll(async () => {
  await (await opened()).close()
})

afterEach(async () => {
  await Promise.all(open.splice(0).map((ledger) => ledger.close()))
})

describe('a group with a value that PostgreSQL cannot store', () => {
  it('fails the write of that value alone, wherever it is in the group', async () => {
    const ledger = await opened()
    const jobs = Array.from({ length: 9 }, (_, i) =>
      newJob(i === 5 ? { envelope: '{"args":["a\0b"]}' } : {}),
    )
    const results = await Promise.allSettled(jobs.map((job) => ledger.insert(job, NOW)))
    expect(results.map(({ status }) => status === 'fulfilled')).toEqual(jobs.map((_, i) => i !== 5))
    expect(results[5]).toMatchObject({ reason: { code: 'backend_error' } })
    expect(ledger.known.counts('default').available).toBe(8)
    expect(ledger.known.fault()).toBeNull()
    expect(await ledger.read.find(jobs[5]?.id ?? '')).toBeNull()
  })

  it('keeps the escaped NUL of a JSON text, and every other character, as it was', async () => {
    const ledger = await opened()
    const envelope = '{"b":1.0,"a":["\\u0000","\\ud800","😀\u2028\\\\"],"n":12345678901234567890}'
    const job = newJob({ envelope })
    await ledger.insert(job, NOW)
    expect((await ledger.read.find(job.id))?.envelope).toBe(envelope)
  })
})

async function groupsAlone(): Promise<Groups> {
  const prefix = `g${randomUUID().slice(0, 8)}`
  await opened(prefix)
  const [schema, memory] = [schemaOf(prefix), new Memory(0, Date.now)]
  const slot = new Slot({ schema, id: 2, owner: randomUUID(), connect: () => connectTo(url()) })
  await slot.take()
  return new Groups({ slot, slotId: 2, schema, memory, logger: SILENT, endStep: () => undefined })
}

it('a write that lacks something else whenever it runs fails alone', async () => {
  const groups = await groupsAlone()
  const endless = groups.write({ wants: {}, run: (draft) => draft.row(v7()) })
  const other = groups.write({ wants: {}, run: () => 'done' })
  await expect(endless).rejects.toMatchObject({ code: 'backend_error' })
  expect(await other).toBe('done')
  await groups.close()
})

it('a write that wants a group of its own has one, lazy or not', async () => {
  const groups = await groupsAlone()
  for (const isLazyAlone of [true, false]) {
    const drafts = new Map<string, Draft>()
    const run = (name: string) => ({
      wants: {},
      run: (draft: Draft) => void drafts.set(name, draft),
    })
    const lazy = new Promise<void>((done) => {
      groups.lazily({ ...run('lazy'), isAlone: isLazyAlone }, done)
    })
    await Promise.all([lazy, groups.write({ ...run('other'), isAlone: !isLazyAlone })])
    expect(drafts.get('lazy')).not.toBe(drafts.get('other'))
  }
  await groups.close()
})

describe('two ledgers with the same slot', () => {
  it('let only the later one write, which sees all that the earlier one has written', async () => {
    const prefix = `g${randomUUID().slice(0, 8)}`
    const first = await opened(prefix)
    const { id, outbox } = await pushed(first)
    const second = await opened(prefix)
    expect(second.known.counts('default').available).toBe(1)
    const refused = { code: 'backend_error', status: 503 }
    await expect(first.insert(newJob(), NOW)).rejects.toMatchObject(refused)
    expect(first.known.fault()).toContain('slot')
    expect(first.known.counts('default').available).toBe(1)
    const [claimed] = await second.claim([jobMessage(id)], TERMS)
    expect(claimed?.verdict).toBe('claimed')
    expect((await pushed(second)).outbox).toBeGreaterThan(outbox)
  })
})

describe('a group whose answer is lost', () => {
  it('is answered as it was committed, once, and counted once', async () => {
    let asked = () => {}
    const proxy = await TcpProxy.start(url(), (_, direction) => {
      if (direction === 'to-broker') asked()
    })
    const prefix = `g${randomUUID().slice(0, 8)}`
    const ledger = await opened(prefix, proxy.url)
    const admin = await opened()
    await pushed(ledger)
    proxy.hold('to-gateway')
    const isAsked = new Promise<void>((resolve) => {
      asked = resolve
    })
    const job = newJob()
    const inserting = ledger.insert(job, NOW)
    // Its load waits for an answer that does not come: the group is tried again on another connection.
    await isAsked
    proxy.cut()
    proxy.release('to-gateway')
    expect(await inserting).toMatchObject({ outcome: 'inserted' })
    expect(ledger.known.counts('default').available).toBe(2)
    await ledger.close()
    const again = await opened(prefix)
    expect(again.known.counts('default').available).toBe(2)
    expect(await again.read.find(job.id)).not.toBeNull()
    await admin.close()
    await proxy.stop()
  })
})

describe('while no host answers', () => {
  it('a write that was sent waits for its outcome, and all others are refused', async () => {
    let asked = () => {}
    const proxy = await TcpProxy.start(url(), (_, direction) => {
      if (direction === 'to-broker') asked()
    })
    const ledger = await opened(undefined, proxy.url)
    const job = await pushed(ledger)
    const isAsked = new Promise<void>((resolve) => {
      asked = resolve
    })
    proxy.hold('to-gateway')
    const sent = ledger.insert(newJob(), NOW)
    await isAsked
    const behind = ledger.insert(newJob(), NOW)
    proxy.refuse(true)
    proxy.cut()
    const refused = { code: 'backend_error', status: 503 }
    await expect(behind).rejects.toMatchObject(refused)
    await expect(ledger.insert(newJob(), NOW)).rejects.toMatchObject(refused)
    proxy.refuse(false)
    expect(await sent).toMatchObject({ outcome: 'inserted' })
    expect(ledger.known.counts('default').available).toBe(2)
    expect(await ledger.read.find(job.id)).not.toBeNull()
    await proxy.stop()
  })

  it('a write after the connection has ended is refused, not undecided', async () => {
    const proxy = await TcpProxy.start(url())
    const ledger = await opened(undefined, proxy.url)
    await pushed(ledger)
    proxy.refuse(true)
    proxy.cut()
    await setTimeout(50)
    await expect(ledger.insert(newJob(), NOW)).rejects.toMatchObject({ status: 503 })
    proxy.refuse(false)
    await pushed(ledger)
    expect(ledger.known.counts('default').available).toBe(2)
    await proxy.stop()
  })
})

it('a look for what is due that finds nothing commits nothing', async () => {
  const prefix = `g${randomUUID().slice(0, 8)}`
  const ledger = await opened(prefix)
  const admin = await connectTo(url())
  onTestFinished(() => admin.close())
  const groups = async () => {
    const text = `SELECT last_group FROM ${schemaOf(prefix)}.slots`
    return Number((await rowsOf(admin, text))[0]?.['last_group'])
  }
  const look = async () => [
    (await ledger.promote(NOW, NOW, 10)).length,
    await ledger.sendAhead(NOW, 10),
    (await ledger.endOverdue({ now: NOW, limit: 10, which: 'all' }, () => null)).length,
  ]
  const later = { state: 'scheduled', dueAt: NOW + 1 } as const
  await pushed(ledger, { start: later })
  await fetched(ledger)
  const before = await groups()
  expect(await look()).toEqual([0, 0, 0])
  expect(await groups()).toBe(before)
  await pushed(ledger, { start: { ...later, dueAt: NOW } })
  expect(await look()).toEqual([1, 0, 0])
  expect(await groups()).toBe(before + 2)
})

describe('a restart', () => {
  it('finds counts, nonces, queues and what is owed as they were', async () => {
    const prefix = `g${randomUUID().slice(0, 8)}`
    const before = await opened(prefix)
    const job = await fetched(before, { queue: 'a' })
    const waiting = await pushed(before, { queue: 'b' })
    await before.recordRetryQueue({ queue: 'a', delayMs: 500 })
    await before.cancelAny('unknown', 'a', NOW)
    before.confirmed(waiting.outbox)
    await settleLazily(before)
    await before.close()
    const after = await opened(prefix)
    expect(after.known.counts('a')).toMatchObject({ active: 1, available: 0 })
    expect(after.known.queues()).toEqual([
      { name: 'a', createdAt: NOW },
      { name: 'b', createdAt: NOW },
    ])
    expect(after.known.retryQueues()).toEqual([{ queue: 'a', delayMs: 500 }])
    expect(await after.read.isTombstoned('unknown')).toBe(true)
    expect(await after.read.outboxPage(0, 10)).toEqual([])
    expect(await after.read.find(job.id)).toEqual(job)
  })
})

describe('a slot that is taken while a ledger is idle', () => {
  it('ends that ledger for good', async () => {
    const prefix = `g${randomUUID().slice(0, 8)}`
    const ledger = await opened(prefix)
    const other = new Slot({
      schema: schemaOf(prefix),
      id: 1,
      owner: randomUUID(),
      connect: () => connectTo(url()),
    })
    await other.take()
    for (const _ of [1, 2])
      await expect(ledger.insert(newJob(), NOW)).rejects.toMatchObject({ status: 503 })
    await other.close()
  })
})
