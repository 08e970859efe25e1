import { expect, it } from 'vitest'
import { vhostOfTest } from '../fixtures.ts'
import { request } from '../harness.ts'

const { vhost, start } = vhostOfTest()

it('a warning says what to raise when no channel is left for one more queue', async () => {
  const { broker } = await start({ amqpUrls: [`${vhost.url}?channelMax=8`] })
  expect(broker.status()).toEqual({ state: 'up' })
  const queues = ['a', 'b', 'c', 'd', 'e', 'f']
  for (const queue of queues) await broker.ensureQueue(queue)
  for (const queue of queues) await broker.take(request([queue], { waitMs: 500 }))
  expect(broker.warnings()).toMatchObject([
    { code: 'no_channels', details: { connection: 'consume' } },
  ])
  expect(broker.status()).toEqual({ state: 'up' })
})

it('the broker is down and names the channel limit when there are too few channels to start', async () => {
  const { broker } = await start({ amqpUrls: [`${vhost.url}?channelMax=4`] })
  await expect
    .poll(() => broker.status())
    .toMatchObject({ state: 'down', reason: expect.stringContaining('No channels left') })
})

it('the broker warns of a channel limit of the user, for which RabbitMQ closes the connection', async () => {
  await vhost.limitChannels(6)
  const { broker } = await start()
  const codes = () => broker.warnings().map(({ code }) => code)
  await expect.poll(codes).toContain('no_channels')
  expect(broker.status()).toMatchObject({
    state: 'down',
    reason: expect.stringMatching(/channels/),
  })
  await vhost.limitChannels(null)
  await expect.poll(() => broker.status(), { timeout: 30_000 }).toEqual({ state: 'up' })
})
