import { expect, it } from 'vitest'
import { limitedUser } from '../../support/broker/rabbit.ts'
import { vhostOfTest } from '../fixtures.ts'
import { row } from '../harness.ts'

const { vhost, admin, start } = vhostOfTest()

const OWN = '^ojs\\.'
const answer = { correlationId: 'c-1', type: 'ojs.control.info', body: '{"job":{}}' }
const cancel = { queue: 'email', type: 'ojs.control.cancel', body: '{"job_id":"j"}' }

// RabbitMQ (3.10.8) asks for this right for direct reply-to as well, and closes the channel without it.
it('without the right to the default exchange no answer is sent, and all else goes on', async () => {
  const rights = { configure: OWN, write: OWN, read: OWN }
  const amqpUrls = [await limitedUser(vhost, rights)]
  const { broker, recorder } = await start({ amqpUrls })
  await broker.ensureQueue('email')
  const { queue } = await admin.channel.assertQueue('', { exclusive: true, autoDelete: true })
  const direct = 'amq.rabbitmq.reply-to.g2dkAA5ub25leGlzdEBub2RlAAAAAAAAAAAAAAAA.abc'
  for (const replyTo of [queue, queue, direct, direct]) {
    expect(['forbidden', 'denied', 'refused']).toContain(await broker.reply({ ...answer, replyTo }))
    // Not a moment later: a channel that is closed again and again is reopened ever later.
    expect(await broker.broadcast(cancel)).toBe('confirmed')
    expect(await broker.publish(row())).toBe('confirmed')
  }
  expect(recorder.count('reconnecting')).toBe(0)
  expect(await admin.takeAll(queue)).toEqual([])
  const refused = { code: 'access_refused', details: { entity: 'amq.default' } }
  expect(broker.warnings()).toMatchObject([refused])

  await limitedUser(vhost, { ...rights, write: '^(ojs\\.|amq\\.default$)' })
  const again = () => broker.reply({ ...answer, replyTo: queue })
  await expect.poll(again, { timeout: 30_000 }).toBe('confirmed')
  expect(broker.warnings()).toEqual([])
})
