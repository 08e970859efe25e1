import { expect, it } from 'vitest'
import { vhostOfTest } from './fixtures.ts'
import { request } from './harness.ts'

const { vhost, start } = vhostOfTest()

it('where there are too few channels for one queue more, a warning says what to raise', async () => {
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

it('where there are too few to begin with, that is why it is not up', async () => {
  const { broker } = await start({ amqpUrls: [`${vhost.url}?channelMax=4`] })
  await expect
    .poll(() => broker.status())
    .toMatchObject({ state: 'down', reason: expect.stringContaining('No channels left') })
})

it('a limit of the user, for which RabbitMQ ends connections, is told of too', async () => {
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
