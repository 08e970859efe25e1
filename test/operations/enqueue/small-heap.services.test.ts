import amqp from 'amqplib'
import { v7 } from 'uuid'
import { expect, it, onTestFinished } from 'vitest'
import { vhostForAll } from '../../support/broker/rabbit.ts'
import { Gateway } from '../../support/gateway/gateway.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { WorkerProcess } from '../../support/gateway/native-worker.ts'

const vhost = vhostForAll()

async function withHeapOf(megabytes: number, more: object = {}): Promise<Gateway> {
  const env = { NODE_OPTIONS: `--max-old-space-size=${megabytes}`, ...more }
  const gateway = await Gateway.start({ amqpUrl: vhost.url, env })
  onTestFinished(() => gateway.dispose())
  return gateway
}

async function confirmChannel(): Promise<amqp.ConfirmChannel> {
  const connection = await amqp.connect(vhost.url)
  onTestFinished(() => connection.close())
  return await connection.createConfirmChannel()
}

const LARGE = { type: 'large.job', args: ['x'.repeat(1_900_000)], options: { queue: 'large' } }
const REFUSED = [
  [413, 'too_many_values'],
  [503, 'busy'],
]
const ROUNDS = 2
const CLIENTS = 80
/** It takes 20 s alone, and ten times as long beside other tests on a slow machine. */
const PATIENCE_MS = 600_000

const reasonIn = (text: string) => /"reason":"(\w+)"/.exec(text)?.[1]

it(
  'a gateway with a heap of 256 MB refuses requests that do not fit, and does not run out of memory',
  async () => {
    const { client } = await withHeapOf(256, { OJS_MAX_BATCH_BYTES: String(2 ** 25) })
    let accepted = 0
    for (let round = 0; round < ROUNDS; round++) {
      const answers = await Promise.all(Array.from({ length: CLIENTS }, () => client.push(LARGE)))
      for (const { status, headers, text } of answers) {
        if (status === 201) accepted++
        else expect([status, headers['retry-after'], reasonIn(text)]).toEqual([503, '1', 'busy'])
      }
    }
    expect(accepted).toBeGreaterThan(ROUNDS)
    const refusalOf = async (jobs: unknown[]) => {
      const { status, text } = await client.send('POST', '/ojs/v1/jobs/batch', { jobs })
      return [status, reasonIn(text)]
    }
    const wide = { type: 'large.job', args: ['\u0416'.repeat(15_000_000)] }
    expect(await refusalOf([wide])).toEqual([413, 'memory'])
    // Parsed, ten million objects would take twice this heap.
    const costly = Array.from({ length: 10_000_000 }, () => ({}))
    const answers = await Promise.all([1, 2, 3, 4].map(() => refusalOf(costly)))
    for (const answer of answers) expect(answer).toBeOneOf(REFUSED)
    expect(answers).toContainEqual([413, 'too_many_values'])

    const { body } = await client.send('GET', '/ojs/v1/queues/large/stats')
    expect(body['stats']).toMatchObject({ available: accepted })
    const asked = { queues: ['large'], count: 100, wait_ms: 10_000 }
    const fetched = await Promise.all(Array.from({ length: 20 }, () => client.fetch(asked)))
    for (const { status } of fetched) expect([200, 503]).toContain(status)
    expect((await client.get('none')).status).toBe(404)
  },
  PATIENCE_MS,
)

it('a gateway with a heap of 128 MB starts 6 workflows of 900 large jobs without running out of memory', async () => {
  const { client } = await withHeapOf(128)
  const jobs = Array.from({ length: 900 }, () => ({ type: 'step.of', args: [] }))
  const options = { queue: 'steps', meta: { text: 'x'.repeat(30_000) } }
  const workflow = { type: 'group', name: 'w', jobs, options }
  const ask = () => client.send('POST', '/ojs/v1/workflows', workflow)
  const answers = await Promise.all(Array.from({ length: 6 }, ask))
  for (const { status } of answers) expect(status).toBe(201)
  expect((await client.get('none')).status).toBe(404)
})

/** Two million objects, which would take twice a heap of 128 MB. */
const COSTLY = `[${'{},'.repeat(2_300_000)}{}]`

it('native messages that would fill the heap are rejected as malformed', async () => {
  const gateway = await withHeapOf(128)
  await gateway.client.push({
    type: 'a.job',
    args: [],
    options: { queue: 'costly' },
  })
  const channel = await confirmChannel()
  const send = async (exchange: string, key: string, text: string, more: object = {}) => {
    channel.publish(exchange, key, Buffer.from(text), { messageId: v7(), ...more })
    await channel.waitForConfirms()
  }
  const job = (id: string) => `{"id":"${id}","type":"a.job","args":${COSTLY}}`
  const [first, second, third] = [v7(), v7(), v7()]

  const headers = { 'x-delay': 1 }
  await send('ojs.exchange.delayed', 'costly', job(first), { messageId: first, headers })
  await gateway.untilLogged('malformed message', 30_000, (line) => line['jobId'] === first)

  const event = `{"job_id":"${second}","attempt":1,"event":"completed","job":${job(second)}}`
  const report = `{"worker_id":"w","events":[${event}]}`
  const type = { type: 'ojs.control.report' }
  await send('ojs.exchange.direct', 'ojs.queue.control.costly', report, type)
  await gateway.untilLogged('malformed control message', 30_000)

  const asked = { queues: ['costly'], wait_ms: 10_000 }
  expect((await gateway.client.fetch(asked)).body['jobs']).toHaveLength(1)
  await send('ojs.exchange.direct', 'costly', job(third), { messageId: third })
  let isLogged = false
  const logged = gateway
    .untilLogged('malformed message', 30_000, (line) => line['jobId'] === third)
    .finally(() => {
      isLogged = true
    })
  // Only a queue that is fetched from is consumed, and a busy machine may take longer for that.
  while (!isLogged) {
    const { body } = await gateway.client.fetch({ ...asked, wait_ms: 2_000 })
    expect(body['jobs']).toEqual([])
  }
  await logged
})

it('a native worker dead-letters a job that would fill its heap, and runs the next one', async () => {
  const { client } = await withHeapOf(512)
  const queue = 'worker-heap'
  const task = { type: 'test.job', args: [], options: { queue } }
  const [before, after] = [v7(), v7()]
  await client.push({ ...task, id: before })
  const worker = new WorkerProcess(vhost.url, queue, 'hang', {
    NODE_OPTIONS: '--max-old-space-size=128',
  })
  onTestFinished(() => worker.kill9())
  const died = worker.ended.then(() => Promise.reject(new Error('the worker has died')))
  const runs = (id: string) => eventually(() => worker.runs.some((run) => run.id === id), 60_000)
  await Promise.race([runs(before), died])
  const channel = await confirmChannel()
  const costly = v7()
  const text = `{"id":"${costly}","type":"test.job","args":${COSTLY}}`
  channel.publish('ojs.exchange.direct', queue, Buffer.from(text), { messageId: costly })
  await channel.waitForConfirms()
  await client.push({ ...task, id: after })
  await Promise.race([runs(after), died])
  const dead = async () => (await channel.checkQueue(`ojs.queue.dlx.${queue}`)).messageCount === 1
  await eventually(dead, 30_000)
})
