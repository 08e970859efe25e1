import { expect, it, onTestFinished, vi } from 'vitest'
import { Connection } from '../../../src/broker/connection/connection.ts'
import { connectControl } from '../../support/gateway/control.ts'
import { freshQueue, gatewayForAll } from '../harness.ts'

const [QUESTIONS, QUEUES, MAX_QUEUES] = [30, 40, 20]

const { vhost } = gatewayForAll({ OJS_MAX_QUEUES: `${MAX_QUEUES}` })

/** Counts the channels that are open at a time on each connection opened from now on or before. */
function countChannels() {
  const open = Connection.prototype.openChannel
  const counts = new Map<Connection, { now: number; most: number }>()
  const spy = vi.spyOn(Connection.prototype, 'openChannel')
  spy.mockImplementation(async function (this: Connection) {
    const count = counts.get(this) ?? { now: 0, most: 0 }
    counts.set(this, count)
    count.now += 1
    count.most = Math.max(count.most, count.now)
    const channel = await open.call(this)
    channel.on('close', () => {
      count.now -= 1
    })
    return channel
  })
  onTestFinished(() => spy.mockRestore())
  return () => Math.max(...[...counts.values()].map(({ most }) => most))
}

// Each queue that is looked at takes a channel, of which RabbitMQ allows 2,047 on a connection. Declaring them
// all would take a minute, and needs no other channels.
it('questions of many workers with many new queues are all answered, and take few channels', async () => {
  const client = await connectControl(vhost.url)
  onTestFinished(() => client.close())
  const most = countChannels()
  const questions = Array.from({ length: QUESTIONS }, () =>
    Array.from({ length: QUEUES }, freshQueue),
  )
  const asked = questions.map((queues) => client.ask('default', 'ojs.control.sync', { queues }))
  const answers = await Promise.all(asked)
  const refused = answers.flatMap((answer, i) => {
    expect(answer).toMatchObject({ tombstones: [], directive: 'running' })
    expect(questions[i]).toEqual(expect.arrayContaining(answer.not_ready ?? []))
    return answer.not_ready ?? []
  })
  // `default` is one of the queues that there may be.
  expect(refused).toHaveLength(QUESTIONS * QUEUES - (MAX_QUEUES - 1))
  expect(most()).toBeLessThanOrEqual(64)
})
