import { expect, it } from 'vitest'
import type { Logger } from '../../../src/logger.ts'
import { limitedUser } from '../../support/broker/rabbit.ts'
import { vhostOfTest } from '../fixtures.ts'
import { request, row } from '../harness.ts'

const ALL = '^(ojs\\.|amq\\.default$)'
const { vhost, start } = vhostOfTest()

/** Collects the entities that are named in log lines about a missing right. */
function countingLogger(): { refusals: string[]; logger: Logger } {
  const refusals: string[] = []
  const warn = (fields: object) => {
    if ('code' in fields && 'entity' in fields) refusals.push(String(fields.entity))
  }
  return { refusals, logger: { debug() {}, info() {}, warn, error() {} } }
}

it('a missing right to publish to an exchange is logged once, and stays a warning until it is granted', async () => {
  const admins = await start()
  await admins.broker.ensureQueue('q')
  await admins.stop()
  const rights = { configure: ALL, write: '^ojs\\.(?!exchange\\.direct)', read: ALL }
  const url = await limitedUser(vhost, rights)
  const { refusals, logger } = countingLogger()
  const { broker } = await start({ amqpUrls: [url], queues: ['q'] }, {}, { logger })
  expect(await broker.publish(row({ queue: 'q' }))).toBe('forbidden')
  await expect.poll(() => broker.publish(row({ queue: 'q' }))).toBe('forbidden')
  // The channel is closed now; the outcome still names the missing right.
  expect(await broker.publish(row({ queue: 'q' }))).toBe('denied')
  expect(broker.warnings()).toMatchObject([
    {
      code: 'access_refused',
      message: expect.stringContaining("publish to exchange 'ojs.exchange.direct'"),
      details: { entity: 'ojs.exchange.direct' },
    },
  ])
  expect(refusals).toEqual(['ojs.exchange.direct'])
  await limitedUser(vhost, { configure: ALL, write: ALL, read: ALL })
  await expect
    .poll(() => broker.publish(row({ queue: 'q' })), { timeout: 15_000 })
    .toBe('confirmed')
  expect(broker.warnings()).toEqual([])
})

it('a missing right to consume is logged once for each job, control and system queue', async () => {
  const queues = ['ojs.queue.q', 'ojs.queue.control.q', 'ojs.system.due']
  const admins = await start()
  await admins.broker.ensureQueue('q')
  await admins.stop()
  const read = `^ojs\\.(?!(queue\\.q|queue\\.control\\.q|system\\.due)$)`
  const url = await limitedUser(vhost, { configure: '^ojs\\.system\\.owner$', write: ALL, read })
  const { refusals, logger } = countingLogger()
  const never = { amqpUrls: [url], queues: ['q'], declare: 'never' as const }
  const { broker } = await start(never, {}, { logger })
  const taking = broker.take(request(['q'], { waitMs: 30_000 }))
  const entities = () => broker.warnings().map(({ details }) => String(details?.['entity']))
  await expect.poll(() => new Set(entities())).toEqual(new Set(queues))
  expect(await broker.publish(row({ queue: 'q' }))).toBe('confirmed')
  await limitedUser(vhost, { configure: ALL, write: ALL, read: ALL })
  expect(await taking).toHaveLength(1)
  expect(refusals).toHaveLength(3)
  expect(new Set(refusals)).toEqual(new Set(queues))
  await expect.poll(entities, { timeout: 15_000 }).not.toContain('ojs.system.due')
})
