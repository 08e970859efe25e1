import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import type { Connection } from '../../../src/broker/connection/connection.ts'
import { createNames } from '../../../src/broker/names.ts'
import { SILENT_OBSERVER } from '../../../src/broker/observer.ts'
import { Declarer, type DeclarerDeps } from '../../../src/broker/topology/declarer.ts'
import { EntityChecker } from '../../../src/broker/topology/entity-checker.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { holdTimers } from '../../support/time/held-timers.ts'
import { vhostOfTest } from '../fixtures.ts'
import { logger, startConnection, topologyWith } from '../harness.ts'
import { HeldChannels } from '../held-channels.ts'

const { vhost, admin } = vhostOfTest()

const QUEUE = 'ojs.queue.email'
const RETRY_MS = 5_000

let held: HeldChannels
let connection: Connection
/** The calls of onQueueMissing and onReady, in order. */
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

function newDeclarer(hooks: Partial<DeclarerDeps['hooks']['queues']> = {}): Declarer {
  const options = { declare: 'lazy' as const, queues: [], maxQueues: 1_000 }
  return new Declarer({
    connection,
    topology: topologyWith(),
    names: createNames(''),
    options,
    checker: new EntityChecker({ options, observer: SILENT_OBSERVER, logger }),
    logger,
    hooks: {
      queues: {
        onQueueMissing: async (queue) => {
          told.push(`missing ${queue}`)
          return 'declare'
        },
        recordedQueues: () => [],
        ...hooks,
      },
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

/** Declares everything that must be there before the queue can be checked. */
async function withQueue(): Promise<void> {
  expect(await declarer.ensure('email')).toBe('ready')
  told.splice(0)
}

describe('a check of a queue', () => {
  it('does not count for a queue that was deleted after the check began', async () => {
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

  it('does not count on the next connection when its own was lost', async () => {
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

  it('is repeated when it got no answer, with one timer for all queues', async () => {
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

  it('delays a probe of the same queue until it is over', async () => {
    await withQueue()
    await admin.channel.deleteQueue(QUEUE)
    const declaring = held.unsent(`assertQueue ${QUEUE}`)
    const looking = declarer.recheck('email')
    const { goOn } = await declaring
    const asked = held.times(`checkQueue ${QUEUE}`)
    const probed = declarer.probe('email')
    // On the same connection: a channel that the probe opened would be open before this one.
    await (await connection.openChannel()).close()
    expect(held.times(`checkQueue ${QUEUE}`)).toBe(asked)
    goOn()
    expect(await looking).toBe('ready')
    expect(await probed).toBe('exists')
  })
})

describe('a queue whose consumers were cancelled and whose check got no answer', () => {
  it('is reported missing before it is ready again, although it exists', async () => {
    await withQueue()
    held.breakOff(`checkQueue ${QUEUE}`)
    expect(await declarer.recheckDying('email')).toBe('unavailable')
    held.release()
    expect(await declarer.probe('email')).toBe('exists')
    // The queue exists, and is as empty as a new one.
    expect(told).toEqual(['missing email', 'ready email'])
  })
})
