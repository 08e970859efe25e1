import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import type { Connection } from '../../src/broker/connection.ts'
import { EntityChecker } from '../../src/broker/entity-checker.ts'
import { createNames } from '../../src/broker/names.ts'
import { SILENT_OBSERVER } from '../../src/broker/observer.ts'
import { Rungs, type RungsDeps } from '../../src/broker/rungs.ts'
import { loadTopology } from '../../src/broker/topology.ts'
import { holdTimers } from '../support/held-timers.ts'
import { eventually } from '../support/in-process.ts'
import { vhostOfTest } from './fixtures.ts'
import { logger, startConnection } from './harness.ts'
import { HeldChannels } from './held-channels.ts'

const { vhost, admin } = vhostOfTest()

const RUNG = 'ojs.queue.retry.email.500'
const RETRY_MS = 5_000

let held: HeldChannels
let connection: Connection
let now: number
/** What the ledger was told, in order. */
let told: string[]
let isLedgerFull: boolean
let rungs: Rungs
beforeEach(async () => {
  held = new HeldChannels()
  await admin.channel.assertExchange('ojs.exchange.retry', 'direct')
  connection = await startConnection(vhost.url, { name: 'declare', random: () => 0 })
  now = 1_000_000
  told = []
  isLedgerFull = false
  rungs = newRungs()
  onTestFinished(async () => {
    rungs.stop()
    await connection.close()
  })
})

function newRungs(maxRungs = 1_000, over: Partial<RungsDeps> = {}): Rungs {
  const options = { declare: 'lazy' as const, maxRungs, rungSettleMs: 0 }
  const tell = (what: string) => async (_queue: string, delayMs: number) => {
    told.push(`${what} ${delayMs}`)
    if (isLedgerFull) throw new Error('disk full')
  }
  return new Rungs({
    connection,
    topology: loadTopology('', 'classic', null),
    names: createNames(''),
    checker: new EntityChecker({ options, observer: SILENT_OBSERVER, logger }),
    options,
    hooks: {
      recordedRungs: () => [],
      onRungDeclared: tell('declared'),
      onRungMissing: tell('missing'),
    },
    clock: { now: () => now, wall: () => now },
    logger,
    ensureQueue: async () => 'ready',
    ...over,
  })
}

async function withRung(): Promise<void> {
  expect(await rungs.ensure('email', 500)).toBe('ready')
  told.splice(0)
}

describe('a look at a rung', () => {
  it('of a native worker leaves one that is gone to the gateway, which knows its jobs', async () => {
    rungs = newRungs(1_000, { leavesMissing: true })
    await withRung()
    await admin.channel.deleteQueue(RUNG)
    expect(await rungs.recheck('email', 500)).toBe('unusable')
    now += 59_999
    expect(await rungs.ensure('email', 500)).toBe('unusable')
    expect(told).toEqual(['missing 500'])
    // Nobody has declared it: there may be no gateway.
    now += 1
    expect(await rungs.ensure('email', 500)).toBe('ready')
  })

  it('of a native worker lets a gateway know before it declares one', async () => {
    const askForRung = async (queue: string, delayMs: number) => {
      told.push(`asked for ${queue} ${delayMs}`)
      return eventually(() => vhost.queue(RUNG).then((found) => found === undefined))
    }
    rungs = newRungs(1_000, { leavesMissing: true, askForRung })
    expect(await rungs.ensure('email', 500)).toBe('ready')
    expect(told).toEqual(['asked for email 500', 'declared 500'])
    // One that is there needs nobody.
    expect(await rungs.recheck('email', 500)).toBe('ready')
    expect(told).toHaveLength(2)
  })

  it('now and then is taken of those too that are in doubt', async () => {
    await withRung()
    rungs.doubt('email', 500)
    await admin.channel.deleteQueue(RUNG)
    await rungs.patrol()
    expect(told).toEqual(['missing 500', 'declared 500'])
  })

  it('that began before the rung went does not count for it', async () => {
    await withRung()
    const almostOver = held.answered(`bindQueue ${RUNG}`)
    const first = rungs.recheck('email', 500)
    const { goOn } = await almostOver
    await admin.channel.deleteQueue(RUNG)
    const second = rungs.recheck('email', 500)
    goOn()
    await Promise.all([first, second])
    expect(told).toEqual(['missing 500', 'declared 500'])
  })

  it('that began on a connection which is gone does not count on the next', async () => {
    const almostOver = held.answered(`bindQueue ${RUNG}`)
    const looking = rungs.ensure('email', 500)
    const { goOn } = await almostOver
    connection.abandon('cut')
    await expect.poll(() => connection.generation).toBe(2)
    goOn()
    expect(await looking).toBe('unusable')
    expect(rungs.isReady('email', 500)).toBe(false)
  })

  it('that nobody answers does not make it a missing one: its retries would run twice', async () => {
    await withRung()
    held.breakOff(`checkQueue ${RUNG}`)
    await rungs.patrol()
    expect([rungs.isReady('email', 500), told]).toEqual([true, []])
    expect(await rungs.recheck('email', 500)).toBe('unusable')
    expect([held.times(`checkQueue ${RUNG}`), told]).toEqual([3, []])
  })

  it('that nobody answers is taken again, once however many there are', async () => {
    await withRung()
    const timers = holdTimers()
    held.breakOff(`checkQueue ${RUNG}`, 'checkQueue ojs.queue.retry.email.700')
    await rungs.recheck('email', 500)
    await rungs.recheck('email', 700)
    expect(timers.count()).toBe(1)
    held.release()
    await timers.elapse(RETRY_MS)
    await eventually(() => rungs.isReady('email', 500))
  })
})

describe('a rung that the ledger could not record', () => {
  beforeEach(async () => {
    rungs = newRungs(1)
    isLedgerFull = true
    expect(await rungs.ensure('email', 500)).toBe('unusable')
    isLedgerFull = false
  })

  it('is not used before the ledger was told of it again', async () => {
    now += RETRY_MS
    expect(await rungs.ensure('email', 500)).toBe('ready')
    expect(told).toEqual(['declared 500', 'declared 500'])
  })

  it('leaves its place to another', async () => {
    expect(await rungs.ensure('email', 700)).toBe('ready')
  })
})

it('a rung that is gone keeps its place while it is declared again', async () => {
  rungs = newRungs(1)
  await withRung()
  await admin.channel.deleteQueue(RUNG)
  const declaring = held.unsent(`assertQueue ${RUNG}`)
  const again = rungs.recheck('email', 500)
  const { goOn } = await declaring
  expect(await rungs.ensure('email', 700)).toBe('unusable')
  goOn()
  expect(await again).toBe('ready')
})
