import { expect, test } from 'vitest'
import { freshQueue, gatewayForAll, untilState } from '../../operations/harness.ts'
import { workersOfTest } from '../harness.ts'

const { vhost, gateway } = gatewayForAll()
const start = workersOfTest(() => vhost.url)

const retry = (id: string) => gateway.request('POST', `/ojs/v1/admin/jobs/${id}/retry`)

/** Pushes a job under the id of one that was erased. */
async function again(queue: string, id: string) {
  expect((await gateway.get(id)).status).toBe(404)
  return gateway.push(queue, { id })
}

/** What gives the id of a cancelled job, whose message is still in the queue, a second message. */
const WAYS: [string, (id: string, queue: string) => Promise<{ status: number }>][] = [
  ['is retried', retry],
  [
    'is deleted, and its id is used again',
    async (id, queue) => {
      await gateway.request('DELETE', `/ojs/v1/admin/jobs/${id}`)
      return again(queue, id)
    },
  ],
  [
    'is deleted with others, and its id is used again',
    async (id, queue) => {
      const body = { filter: { queue }, confirm: true }
      await gateway.request('POST', '/ojs/v1/admin/jobs/bulk/delete', body)
      return again(queue, id)
    },
  ],
]

test.each(WAYS)(
  'a cancelled job that %s runs once on a native worker that comes later',
  async (_how, goOn) => {
    const queue = freshQueue()
    const { id } = (await gateway.push(queue)).body.job
    expect((await gateway.cancel(id)).status).toBe(200)
    expect([200, 201]).toContain((await goOn(id, queue)).status)
    const last = (await gateway.push(queue)).body.job.id
    const ran: string[] = []
    await start(queue, ({ job }) => ran.push(job.id), { concurrency: 1 })
    await untilState(gateway, last, 'completed')
    expect(ran).toEqual([id, last])
    expect((await gateway.get(id)).body.job).toMatchObject({ state: 'completed', attempt: 1 })
  },
)
