import { expect, onTestFinished, test } from 'vitest'
import { Connection } from '../../../src/broker/connection/connection.ts'
import { SILENT_OBSERVER } from '../../../src/broker/observer.ts'
import { EventPublisher, eventKey } from '../../../src/broker/publish/event-publisher.ts'
import { EventRing } from '../../../src/telemetry/event-ring.ts'
import { uuid7 } from '../../../src/uuid.ts'
import { jobRow } from '../../http/job-rows.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { vhostOfTest } from '../fixtures.ts'
import { logger } from '../harness.ts'

const { admin, vhost } = vhostOfTest()

test('what the ring has forgotten before there was a connection is counted, and the rest published', async () => {
  const ring = new EventRing(5, { now: () => 0, wall: () => 1_000 }, uuid7)
  await admin.channel.assertExchange('ojs.exchange.events', 'topic')
  await admin.channel.assertQueue('seen')
  await admin.channel.bindQueue('seen', 'ojs.exchange.events', '#')
  const seen = { published: 0, dropped: 0 }
  const connection = new Connection({
    ...{ logger, random: Math.random, observer: SILENT_OBSERVER },
    ...{ name: 'events', urls: [vhost.url], connectionName: 'test' },
  })
  onTestFinished(() => connection.close())
  const publisher = new EventPublisher({
    ...{ connection, exchange: 'ojs.exchange.events', source: ring, logger, random: Math.random },
    observer: {
      published: () => {
        seen.published += 1
      },
      dropped: (count) => {
        seen.dropped += count
      },
    },
    onChannelError: () => {},
  })
  for (let i = 0; i < 20; i++) ring.onJobEvent({ type: 'job.enqueued', job: jobRow() })
  expect(publisher.pending).toBe(20)
  publisher.start()
  await eventually(async () => seen.published === 5)
  expect(seen.dropped).toBe(15)
  expect(publisher.pending).toBe(0)
  expect(await admin.takeAll('seen')).toHaveLength(5)
  await publisher.stop(AbortSignal.timeout(1_000))
})

test('a routing key has only a name that a queue may have', () => {
  expect(eventKey('job.failed', 'a.b-c')).toBe('job.failed.a.b-c')
  expect(eventKey('job.failed', null)).toBe('job.failed._')
  expect(eventKey('job.failed', '#')).toBe('job.failed._')
  expect(eventKey('job.failed', 'x'.repeat(300))).toBe('job.failed._')
})
