import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import type { Connection } from '../../src/broker/connection.ts'
import { Declarer, type DeclarerDeps } from '../../src/broker/declarer.ts'
import { EntityChecker } from '../../src/broker/entity-checker.ts'
import { createNames } from '../../src/broker/names.ts'
import { SILENT_OBSERVER } from '../../src/broker/observer.ts'
import { loadTopology } from '../../src/broker/topology.ts'
import { holdTimers } from '../support/held-timers.ts'
import { eventually } from '../support/in-process.ts'
import { vhostOfTest } from './fixtures.ts'
import { logger, startConnection } from './harness.ts'
import { HeldChannels } from './held-channels.ts'

const { vhost, admin } = vhostOfTest()

const QUEUE = 'ojs.queue.email'
const RETRY_MS = 5_000

let held: HeldChannels
let connection: Connection
/** What the ledger and the consumers were told, in order. */
let told: string[]
let declarer: Declarer
beforeEach(async () => {
  held = new HeldChannels()
  connection = await startConnection(vhost.url, { name: 'declare', random: () => 0 })
  told = []
  declarer = newDeclarer()
  onTestFinished(async () => {
    declarer.stop()
    await connection.close()
  })
})

function newDeclarer(hooks: Partial<DeclarerDeps['hooks']> = {}): Declarer {
  const options = { declare: 'lazy' as const, queues: [], maxQueues: 1_000 }
  return new Declarer({
    connection,
    topology: loadTopology('', 'classic', null),
    names: createNames(''),
    options,
    checker: new EntityChecker({ options, observer: SILENT_OBSERVER, logger }),
    logger,
    hooks: {
      onQueueMissing: async (queue) => {
        told.push(`missing ${queue}`)
        return 'declare'
      },
      recordedQueues: () => [],
      ...hooks,
    },
    onReady: (queue) => told.push(`ready ${queue}`),
    onDeclare: () => {},
  })
}

async function reconnected(): Promise<void> {
  const { generation } = connection
  connection.abandon('cut')
  await expect.poll(() => connection.generation).toBeGreaterThan(generation)
}

/** All that is declared before it may be looked for is there. */
async function withQueue(): Promise<void> {
  expect(await declarer.ensure('email')).toBe('ready')
  told.splice(0)
}

describe('a look at a queue', () => {
  it('that began before the queue went does not count for it', async () => {
    await withQueue()
    const almostOver = held.unsent('assertQueue ojs.queue.control.email')
    const first = declarer.recheck('email')
    const { goOn } = await almostOver
    await admin.channel.deleteQueue(QUEUE)
    const second = declarer.recheck('email')
    goOn()
    expect(await Promise.all([first, second])).toEqual(['ready', 'ready'])
    expect(told).toContain('missing email')
  })

  it('that began on a connection which is gone does not count on the next', async () => {
    declarer = newDeclarer({
      onQueueMissing: async () => {
        await reconnected()
        return 'declare'
      },
    })
    await declarer.ensure('email')
    expect([declarer.isReady('email'), told]).toEqual([false, []])
    expect(await declarer.ensure('email')).toBe('ready')
  })

  it('that nobody answers is taken again, once however many there are', async () => {
    await withQueue()
    const timers = holdTimers()
    held.breakOff(`checkQueue ${QUEUE}`, 'checkQueue ojs.queue.other')
    expect(await declarer.recheck('email')).toBe('unavailable')
    expect(await declarer.recheck('other')).toBe('unavailable')
    expect([timers.count(), told]).toEqual([1, []])
    held.release()
    await timers.elapse(RETRY_MS)
    await eventually(() => declarer.isReady('email'))
    expect(told).toEqual(['ready email'])
  })

  it('says nothing before it is over to those who only ask', async () => {
    await withQueue()
    await admin.channel.deleteQueue(QUEUE)
    const declaring = held.unsent(`assertQueue ${QUEUE}`)
    const looking = declarer.recheck('email')
    const { goOn } = await declaring
    const asked = held.times(`checkQueue ${QUEUE}`)
    const probed = declarer.probe('email')
    // On the same connection: a channel of the probe's would be open before it.
    await (await connection.openChannel()).close()
    expect(held.times(`checkQueue ${QUEUE}`)).toBe(asked)
    goOn()
    expect(await looking).toBe('ready')
    expect(await probed).toBe('exists')
  })
})

describe('a queue whose consumers were cancelled, and that nobody answered for', () => {
  it('is consumed by nobody before it is settled what became of it', async () => {
    await withQueue()
    held.breakOff(`checkQueue ${QUEUE}`)
    expect(await declarer.recheckDying('email')).toBe('unavailable')
    held.release()
    expect(await declarer.probe('email')).toBe('exists')
    // It is there, and as empty as a new one.
    expect(told).toEqual(['missing email', 'ready email'])
  })
})
