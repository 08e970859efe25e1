import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import type { Connection } from '../../../src/broker/connection/connection.ts'
import { createNames } from '../../../src/broker/names.ts'
import { SILENT_OBSERVER } from '../../../src/broker/observer.ts'
import { EntityChecker } from '../../../src/broker/topology/entity-checker.ts'
import { RetryQueues, type RetryQueuesDeps } from '../../../src/broker/topology/retry-queues.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { holdTimers } from '../../support/time/held-timers.ts'
import { vhostOfTest } from '../fixtures.ts'
import { logger, startConnection, topologyWith } from '../harness.ts'
import { HeldChannels } from '../held-channels.ts'

const { vhost, admin } = vhostOfTest()

const RETRY_QUEUE = 'ojs.queue.retry.email.500'
const RETRY_MS = 5_000

let held: HeldChannels
let connection: Connection
let now: number
/** The calls to the ledger, in order. */
let told: string[]
let isLedgerFull: boolean
let retryQueues: RetryQueues
beforeEach(async () => {
  held = new HeldChannels()
  await admin.channel.assertExchange('ojs.exchange.retry', 'direct')
  connection = await startConnection(vhost.url, { name: 'declare', random: () => 0 })
  now = 1_000_000
  told = []
  isLedgerFull = false
  retryQueues = newRetryQueues()
  onTestFinished(async () => {
    retryQueues.stop()
    await connection.close()
  })
})

function newRetryQueues(maxRetryQueues = 1_000, over: Partial<RetryQueuesDeps> = {}): RetryQueues {
  const options = { declare: 'lazy' as const, maxRetryQueues, retryQueueSettleMs: 0 }
  const tell = (what: string) => async (_queue: string, delayMs: number) => {
    told.push(`${what} ${delayMs}`)
    if (isLedgerFull) throw new Error('disk full')
  }
  return new RetryQueues({
    connection,
    topology: topologyWith(),
    names: createNames(''),
    checker: new EntityChecker({ options, observer: SILENT_OBSERVER, logger }),
    options,
    hooks: {
      queues: {
        recordedRetryQueues: () => [],
        onRetryQueueDeclared: tell('declared'),
        onRetryQueueMissing: tell('missing'),
      },
    },
    clock: { now: () => now, wall: () => now },
    logger,
    ensureQueue: async () => 'ready',
    ...over,
  })
}

async function withRetryQueue(): Promise<void> {
  expect(await retryQueues.ensure('email', 500)).toBe('ready')
  told.splice(0)
}

describe('a check of a retry queue', () => {
  it('by a native worker leaves a missing one to the gateway, which knows its jobs, for a minute', async () => {
    retryQueues = newRetryQueues(1_000, { leavesMissing: true })
    await withRetryQueue()
    await admin.channel.deleteQueue(RETRY_QUEUE)
    expect(await retryQueues.recheck('email', 500)).toBe('unusable')
    now += 59_999
    expect(await retryQueues.ensure('email', 500)).toBe('unusable')
    expect(told).toEqual(['missing 500'])
    // Nothing has declared it for a minute: there may be no gateway.
    now += 1
    expect(await retryQueues.ensure('email', 500)).toBe('ready')
  })

  it('by a native worker asks a gateway before it declares a new one', async () => {
    const askForRetryQueue = async (queue: string, delayMs: number) => {
      told.push(`asked for ${queue} ${delayMs}`)
      return eventually(() => vhost.queue(RETRY_QUEUE).then((found) => found === undefined))
    }
    retryQueues = newRetryQueues(1_000, { leavesMissing: true, askForRetryQueue })
    expect(await retryQueues.ensure('email', 500)).toBe('ready')
    expect(told).toEqual(['asked for email 500', 'declared 500'])
    // No gateway is needed for a retry queue that exists.
    expect(await retryQueues.recheck('email', 500)).toBe('ready')
    expect(told).toHaveLength(2)
  })

  it('by patrol() includes a queue that is in doubt', async () => {
    await withRetryQueue()
    retryQueues.doubt('email', 500)
    await admin.channel.deleteQueue(RETRY_QUEUE)
    await retryQueues.patrol()
    expect(told).toEqual(['missing 500', 'declared 500'])
  })

  it('does not count for a queue that was deleted after the check began', async () => {
    await withRetryQueue()
    const almostOver = held.answered(`bindQueue ${RETRY_QUEUE}`)
    const first = retryQueues.recheck('email', 500)
    const { goOn } = await almostOver
    await admin.channel.deleteQueue(RETRY_QUEUE)
    const second = retryQueues.recheck('email', 500)
    goOn()
    await Promise.all([first, second])
    expect(told).toEqual(['missing 500', 'declared 500'])
  })

  it('does not count on the next connection when its own was lost', async () => {
    const almostOver = held.answered(`bindQueue ${RETRY_QUEUE}`)
    const looking = retryQueues.ensure('email', 500)
    const { goOn } = await almostOver
    connection.abandon('cut')
    await expect.poll(() => connection.generation).toBe(2)
    goOn()
    expect(await looking).toBe('unusable')
    expect(retryQueues.isReady('email', 500)).toBe(false)
  })

  it('that gets no answer does not report the queue missing: its retries would run twice', async () => {
    await withRetryQueue()
    held.breakOff(`checkQueue ${RETRY_QUEUE}`)
    await retryQueues.patrol()
    expect([retryQueues.isReady('email', 500), told]).toEqual([true, []])
    expect(await retryQueues.recheck('email', 500)).toBe('unusable')
    expect([held.times(`checkQueue ${RETRY_QUEUE}`), told]).toEqual([3, []])
  })

  it('that gets no answer is repeated, with one timer for all queues', async () => {
    await withRetryQueue()
    const timers = holdTimers()
    held.breakOff(`checkQueue ${RETRY_QUEUE}`, 'checkQueue ojs.queue.retry.email.700')
    await retryQueues.recheck('email', 500)
    await retryQueues.recheck('email', 700)
    expect(timers.count()).toBe(1)
    held.release()
    await timers.elapse(RETRY_MS)
    await eventually(() => retryQueues.isReady('email', 500))
  })
})

describe('a retry queue that the ledger could not record', () => {
  beforeEach(async () => {
    retryQueues = newRetryQueues(1)
    isLedgerFull = true
    expect(await retryQueues.ensure('email', 500)).toBe('unusable')
    isLedgerFull = false
  })

  it('is not used before the ledger has recorded it', async () => {
    now += RETRY_MS
    expect(await retryQueues.ensure('email', 500)).toBe('ready')
    expect(told).toEqual(['declared 500', 'declared 500'])
  })

  it('leaves its place within maxRetryQueues to another', async () => {
    expect(await retryQueues.ensure('email', 700)).toBe('ready')
  })
})

it('a missing retry queue keeps its place within maxRetryQueues while it is declared again', async () => {
  retryQueues = newRetryQueues(1)
  await withRetryQueue()
  await admin.channel.deleteQueue(RETRY_QUEUE)
  const declaring = held.unsent(`assertQueue ${RETRY_QUEUE}`)
  const again = retryQueues.recheck('email', 500)
  const { goOn } = await declaring
  expect(await retryQueues.ensure('email', 700)).toBe('unusable')
  goOn()
  expect(await again).toBe('ready')
})
