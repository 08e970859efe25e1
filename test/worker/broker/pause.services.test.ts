import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { AmqpLink } from '../../../src/worker/connection.ts'
import { Intake } from '../../../src/worker/consumers.ts'
import { GatewayRpc } from '../../../src/worker/gateway-rpc.ts'
import { withDefaults } from '../../../src/worker/options.ts'
import { gatewayForAll } from '../../operations/harness.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { benchIn, broadcast, gate, ready } from '../harness.ts'

const { vhost, gateway } = gatewayForAll()
const stage = benchIn(vhost)
let queues = 0
let queue = ''

beforeEach(() => {
  queues += 1
  queue = `paused-${queues}`
})

const direct = async (verb: 'pause' | 'resume') => {
  const answer = await gateway.request('POST', `/ojs/v1/queues/${queue}/${verb}`)
  expect(answer.status).toBe(200)
}
const pushed = async () => {
  const answer = await gateway.push(queue)
  expect(answer.status).toBe(201)
  return answer.body.job.id
}
const untilState = (id: string, state: string) =>
  eventually(async () => (await gateway.get(id)).body.job.state === state)
const consumers = async () =>
  (await stage.admin.channel.checkQueue(`ojs.queue.${queue}`)).consumerCount

/** A staged job: its activation brings it into a paused queue, for which a PUSH would be refused. */
async function pushPending(): Promise<string> {
  const body = { type: 'test.job', args: [1], options: { queue, pending: true } }
  const { body: staged } = await gateway.request('POST', '/ojs/v1/jobs', body)
  return staged.job.id
}
const activate = (id: string) => gateway.request('POST', `/ojs/v1/jobs/${id}/activate`)

test('a native worker stops consuming a paused queue, finishes its job, and consumes again after resume', async () => {
  const end = gate()
  const begun: string[] = []
  const handler = async ({ job }: { job: { id: string } }) => {
    begun.push(job.id)
    await end.opened
  }
  await stage.start({ queues: [queue], concurrency: 1 }, { 'test.job': handler })
  const running = await pushed()
  await eventually(() => begun.length === 1)
  const held = await pushed()
  const later = await pushPending()
  await direct('pause')
  await eventually(async () => (await consumers()) === 0)
  await activate(later)
  end.open()
  await untilState(running, 'completed')
  await eventually(async () => (await ready(stage.admin, `ojs.queue.${queue}`)) === 2)
  expect(begun).toEqual([running])

  await direct('resume')
  await untilState(later, 'completed')
  expect(begun).toEqual([running, held, later])
})

test('a native worker that starts while its queue is paused consumes only after resume', async () => {
  await pushed()
  await direct('pause')
  const ran: string[] = []
  await stage.start(
    { queues: [queue, `other-${queue}`] },
    { 'test.job': ({ job }) => ran.push(job.id) },
  )
  await gateway.push(`other-${queue}`)
  await eventually(() => ran.length === 1)
  expect(await consumers()).toBe(0)
  await direct('resume')
  await eventually(() => ran.length === 2)
})

test('a native worker that started without a gateway stops consuming a paused queue once one runs', async () => {
  await pushed()
  const [job] = await gateway.fetch([queue], { wait_ms: 10_000 })
  await gateway.ack(job.id)
  await direct('pause')
  await gateway.stop()
  await stage.start({ queues: [queue], answerTimeoutMs: 1_000 }, {})
  expect(await consumers()).toBe(1)
  await gateway.restart()
  await eventually(async () => (await consumers()) === 0)
})

test('a native worker consumes again after a restart of the gateway that resumed without a broadcast', async () => {
  await pushed()
  await direct('pause')
  const ran: string[] = []
  await stage.start({ queues: [queue] }, { 'test.job': ({ job }) => ran.push(job.id) })
  expect(await consumers()).toBe(0)
  await gateway.stop()
  // The state that a gateway leaves when it is killed between its commit and its broadcast.
  const ledger = await gateway.ledger.open()
  await ledger.pauses.resume(queue, Date.now())
  await ledger.close()
  await gateway.restart()
  await eventually(() => ran.length === 1)
})

test('a native worker ignores broadcasts about queues of others and malformed broadcasts', async () => {
  const ran: string[] = []
  await stage.start({ queues: [queue] }, { 'test.job': ({ job }) => ran.push(job.id) })
  await broadcast(stage.admin, queue, 'ojs.control.resume', { queue: 'somebody-elses' })
  await broadcast(stage.admin, queue, 'ojs.control.pause', { queue: ['no', 'text'] })
  const id = await pushed()
  await untilState(id, 'completed')
  expect(await vhost.queue('ojs.queue.somebody-elses')).toBeUndefined()
})

describe('a native worker without a gateway', () => {
  beforeAll(() => gateway.stop())
  afterAll(() => gateway.restart())

  test('obeys a pause that is broadcast while the answer to its sync is on its way', async () => {
    queue = await stage.queue()
    const desk = await stage.desk(queue)
    const paused = vi.spyOn(Intake.prototype, 'pause')
    desk.beforeSync = async () => {
      // Only for the first sync: declaring the queue causes another one.
      desk.beforeSync = async () => {}
      await broadcast(stage.admin, queue, 'ojs.control.pause', { queue })
      await vi.waitUntil(() => paused.mock.calls.length > 0, { timeout: 15_000 })
      paused.mockRestore()
    }
    await stage.start({ queues: [queue] }, {})
    await eventually(async () => (await consumers()) === 0)
    await broadcast(stage.admin, queue, 'ojs.control.resume', { queue })
    await eventually(async () => (await consumers()) === 1)
  })

  test('asks again after 31 s when its first sync was not answered', async () => {
    const real = performance.now.bind(performance)
    try {
      queue = await stage.queue()
      const desk = await stage.desk(queue)
      desk.sync = null
      await stage.start({ queues: [queue], heartbeatInterval: 50, answerTimeoutMs: 3_000 }, {})
      expect(await consumers()).toBe(1)
      desk.sync = { tombstones: [], truncated: false, paused: [queue], directive: 'running' }
      // After an unanswered question, the worker asks nothing for half a minute.
      let aheadMs = 0
      vi.spyOn(performance, 'now').mockImplementation(() => real() + aheadMs)
      const consumersLater = () => {
        aheadMs += 31_000
        return consumers()
      }
      await expect.poll(consumersLater).toBe(0)
    } finally {
      vi.restoreAllMocks()
    }
  })
})

test('a sync that is asked before the publish connection is up is sent as soon as it is', async () => {
  const options = withDefaults({ url: vhost.url, logger: false, answerTimeoutMs: 10_000 }, 'test')
  const link = new AmqpLink(options, {
    askForQueue: async () => {},
    gauges: () => ({ consumers: [], queues: [] }),
  })
  const line = new GatewayRpc(link, () => 'w-1')
  try {
    await pushed()
    await direct('pause')
    await link.consume.start()
    const synced = line.sync([queue])
    await link.publish.start()
    expect(await synced).toMatchObject({ paused: [queue] })
    expect(line.isSilent).toBe(false)
  } finally {
    await link.stop(AbortSignal.timeout(5_000))
  }
})
