import { v7 } from 'uuid'
import { expect, it } from 'vitest'
import { freshQueue, gatewayForAll, untilState } from '../operations/harness.ts'
import { connectControl } from '../support/control.ts'

const PREFIX = 'tenant1'
const { vhost, gateway } = gatewayForAll({ OJS_PREFIX: PREFIX })

it('a restarted gateway does what was said meanwhile, in every control queue, with a prefix', async () => {
  const queues = [freshQueue(), freshQueue(), 'default']
  const jobs = await Promise.all(
    queues.map(async (queue) => ({ queue, id: (await gateway.push(queue)).body.job.id })),
  )
  const client = await connectControl(vhost.url, PREFIX)
  const count = async (queue: string) => {
    const name = `${PREFIX}.ojs.queue.control.${queue}`
    const { messageCount, consumerCount } = await client.channel.checkQueue(name)
    return [messageCount, consumerCount]
  }
  await gateway.stop()
  for (const { queue, id } of jobs) {
    await client.say(queue, 'ojs.control.cancel', { job_id: v7() })
    await client.say(queue, 'ojs.control.cancel', { job_id: id })
    expect(await count(queue)).toEqual([2, 0])
  }
  await gateway.restart()
  for (const { queue, id } of jobs) {
    await untilState(gateway, id, 'cancelled')
    await expect.poll(() => count(queue)).toEqual([0, 1])
  }
  for (const { queue, id } of jobs) {
    const { body } = await gateway.get(id)
    for (const how of ['exclusive', 'direct'] as const) {
      expect(await client.ask(queue, 'ojs.control.info', { job_id: id }, how)).toEqual(body)
    }
  }
  const heard = await client.listen([queues[0] ?? ''])
  await gateway.request('POST', '/ojs/v1/admin/workers/*/quiet')
  await expect.poll(() => heard.map(({ body }) => body)).toEqual([{ state: 'quiet' }])
  await client.close()
})
