import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { vhostOfTest } from './fixtures.ts'

const { admin, start } = vhostOfTest()

const DEAD_LETTERS = 'ojs.system.dead-letters'
const DUE = 'ojs.system.due'

async function consumerCount(name: string): Promise<number> {
  return (await admin.channel.checkQueue(name)).consumerCount
}

/**
 * RabbitMQ 3.10 tells the consumer of a quorum queue nothing where its name is declared anew within
 * some 50 ms. That the gateway does with the second one, because of the first. How long it takes
 * differs from time to time: hence some of each.
 */
it.each(
  [0, 1, 2, 3, 4, 5].flatMap((ms) => [
    { ms, order: [DEAD_LETTERS, DUE] },
    { ms, order: [DUE, DEAD_LETTERS] },
  ]),
)('both are consumed again when $order are deleted $ms ms apart', async ({ ms, order }) => {
  const heard = new Set<string>()
  await start(
    {},
    {
      onScheduled: async () => {
        heard.add(DUE)
        return 'handled'
      },
      onDeadLetter: async () => {
        heard.add(DEAD_LETTERS)
      },
    },
    { random: () => 0 },
  )
  for (const name of order) await expect.poll(() => consumerCount(name)).toBe(1)
  for (const name of order) {
    await admin.channel.deleteQueue(name)
    await sleep(ms)
  }
  // The gateway may declare them half a second later: what comes before that is dropped.
  const send = () => {
    for (const name of order)
      if (!heard.has(name)) admin.channel.sendToQueue(name, Buffer.from('{}'))
    return heard.size
  }
  await expect.poll(send, { interval: 200 }).toBe(2)
})
