import { beforeEach, expect, it, onTestFinished } from 'vitest'
import type { Connection } from '../../src/broker/connection.ts'
import { EntityChecker } from '../../src/broker/entity-checker.ts'
import { createNames } from '../../src/broker/names.ts'
import { SILENT_OBSERVER } from '../../src/broker/observer.ts'
import { ScratchChannel } from '../../src/broker/scratch-channel.ts'
import { loadTopology } from '../../src/broker/topology.ts'
import { UnwrittenQueues } from '../../src/broker/unwritten-queues.ts'
import { vhostOfTest } from './fixtures.ts'
import { logger, startConnection } from './harness.ts'

/** What RabbitMQ makes of such queues when it is killed: test/crash/faults/new-queues.test.ts. */
const { vhost, admin } = vhostOfTest()

const QUEUES = ['ojs.queue.dlx.email', 'ojs.queue.email', 'ojs.queue.control.email']

let connection: Connection
let unwritten: Set<string>
let ready: string[]
let lost: boolean[]
let queues: UnwrittenQueues
beforeEach(async () => {
  connection = await startConnection(vhost.url, { name: 'declare', random: () => 0 })
  onTestFinished(() => connection.close())
  unwritten = new Set(['email'])
  ready = ['email', 'other']
  lost = []
  const arguments_ = { 'x-queue-type': 'quorum' }
  for (const name of QUEUES) await admin.channel.assertQueue(name, { arguments: arguments_ })
  queues = new UnwrittenQueues({
    connection,
    names: createNames(''),
    topology: loadTopology('', 'quorum', null),
    checker: new EntityChecker({
      options: { declare: 'lazy' },
      observer: SILENT_OBSERVER,
      logger,
    }),
    hooks: {
      isUnwritten: (queue) => unwritten.has(queue),
      onWritten: async (queue) => void unwritten.delete(queue),
    },
    logger,
    readyQueues: () => ready,
  })
})

async function mend(): Promise<boolean> {
  const scratch = new ScratchChannel(connection)
  const isSound = await queues.mend(scratch, 'email', async (isControlLost) => {
    lost.push(isControlLost)
    return true
  })
  await scratch.close()
  return isSound
}

/** They have no binding but this one, and a queue that is deleted loses it. */
async function areTheSame(): Promise<boolean> {
  for (const name of QUEUES) admin.channel.publish('mark', name, Buffer.from('x'))
  await admin.channel.waitForConfirms()
  const counts = QUEUES.map(async (name) => (await admin.channel.checkQueue(name)).messageCount)
  return (await Promise.all(counts)).every((count) => count > 0)
}

it('those that answer are left as they are, whether or not there is anything in them', async () => {
  await admin.channel.assertExchange('mark', 'direct')
  for (const name of QUEUES) await admin.channel.bindQueue(name, 'mark', name)
  expect(await mend()).toBe(true)
  expect(await areTheSame()).toBe(true)
  expect(await mend()).toBe(true)
  expect(lost).toEqual([])
})

it('nobody publishes to one that is being asked, and anybody to all others', async () => {
  const to = (exchange: string, routingKey: string) => queues.isInHand({ exchange, routingKey })
  const inHand = () => [
    to('ojs.exchange.direct', 'email'),
    to('ojs.exchange.dlx', 'email'),
    to('ojs.exchange.direct', 'other'),
    to('ojs.exchange.dlx', 'other'),
    to('ojs.exchange.retry', 'email'),
  ]
  const mended = mend()
  expect(inHand()).toEqual([true, true, false, false, false])
  await mended
  expect(inHand()).toEqual([false, false, false, false, false])
  unwritten.clear()
  const looked = mend()
  expect(inHand()).toEqual([false, false, false, false, false])
  await looked
})

it('is written when it was ready at two looks on one connection', async () => {
  unwritten.add('other').add('away')
  await queues.settle()
  ready = ['email', 'new']
  unwritten.add('new')
  await queues.settle()
  expect(unwritten).toEqual(new Set(['other', 'away', 'new']))
  ready = ['other', 'new']
  const before = connection.generation
  connection.abandon('test')
  await expect.poll(() => connection.generation).toBe(before + 1)
  await queues.settle()
  expect(unwritten).toEqual(new Set(['other', 'away', 'new']))
  await queues.settle()
  expect(unwritten).toEqual(new Set(['away']))
})
