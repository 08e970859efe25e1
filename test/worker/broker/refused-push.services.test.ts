import { v7 } from 'uuid'
import { describe, expect, test } from 'vitest'
import { freshQueue, untilState } from '../../operations/harness.ts'
import { vhostForAll } from '../../support/broker/rabbit.ts'
import { TcpProxy } from '../../support/broker/tcp-proxy.ts'
import { startTestGateway } from '../../support/gateway/in-process.ts'
import { deferred } from '../../support/time/deferred.ts'
import { forAll } from '../../support/time/late.ts'
import { workersOfTest } from '../harness.ts'

const vhost = vhostForAll()
const start = workersOfTest(() => vhost.url)
/** Between RabbitMQ and the gateway, not the workers. */
const proxy = forAll(
  () => TcpProxy.start(vhost.url),
  (started) => started.stop(),
)
const gateway = forAll(
  () => startTestGateway(proxy.url, { OJS_PUBLISH_TIMEOUT_MS: '1000' }),
  (started) => started.destroy(),
)

const pushed = async (queue: string) => (await gateway.push(queue)).body.job.id

interface Way {
  path: string
  isCut: boolean
}

const push = (path: string, queue: string, id: string) => {
  const job = { type: 'test.job', args: [], id, options: { queue } }
  return gateway.request('POST', path, path.endsWith('batch') ? { jobs: [job] } : job)
}

/** A PUSH whose message RabbitMQ takes, while its confirm does not come back. Returns the id. */
async function refused(queue: string, { path, isCut }: Way): Promise<string> {
  const id = v7()
  proxy.hold('to-gateway')
  const answer = push(path, queue, id)
  if (isCut) setTimeout(() => proxy.cut(), 300)
  const { status, body } = await answer
  expect([status, body.error.details.reason]).toEqual([503, 'unconfirmed'])
  proxy.release('to-gateway')
  const isServing = async () => (await gateway.request('GET', '/ojs/v1/health')).status
  await expect.poll(isServing, { timeout: 20_000 }).toBe(200)
  return id
}

describe.each<[string, Way]>([
  ['PUSH that is 503 without a confirm', { path: '/ojs/v1/jobs', isCut: false }],
  ['PUSH that is 503 as its connection broke', { path: '/ojs/v1/jobs', isCut: true }],
  ['batch that is 503 without a confirm', { path: '/ojs/v1/jobs/batch', isCut: false }],
])('a %s', (_what, way) => {
  test('does not run on a native worker that comes later', async () => {
    const queue = freshQueue()
    const first = await pushed(queue)
    await refused(queue, way)
    const last = await pushed(queue)
    const ran: string[] = []
    await start(queue, ({ job }) => ran.push(job.id), { concurrency: 1 })
    await untilState(gateway, last, 'completed')
    expect(ran).toEqual([first, last])
  })

  test.each(['at work', 'that comes later'])(
    'runs once on a native worker %s when it is repeated with its id',
    async (which) => {
      const queue = freshQueue()
      const first = await pushed(queue)
      const ran: string[] = []
      const mayEnd = deferred()
      const work = () =>
        start(
          queue,
          async ({ job }) => {
            ran.push(job.id)
            await mayEnd.promise
          },
          { concurrency: 1 },
        )
      if (which === 'at work') await work()
      const id = await refused(queue, way)
      expect((await push(way.path, queue, id)).status).toBe(201)
      const last = await pushed(queue)
      if (which !== 'at work') await work()
      mayEnd.resolve()
      await untilState(gateway, last, 'completed')
      expect(ran).toEqual([first, id, last])
      expect((await gateway.get(id)).body.job).toMatchObject({ state: 'completed', attempt: 1 })
    },
  )
})
