import { afterAll, beforeAll, expect, test } from 'vitest'
import { NativeWorker } from '../src/worker/index.ts'
import { sharedPostgres } from './ledger/postgres/server.ts'
import { vhostForAll } from './support/broker/rabbit.ts'
import { type Answer, jobsOf } from './support/gateway/client.ts'
import { Gateway } from './support/gateway/gateway.ts'
import { eventually } from './support/gateway/in-process.ts'
import { databaseOn, type TestLedger } from './support/gateway/test-ledger.ts'

/** Two gateways on one PostgreSQL and one RabbitMQ. The tests follow each other: each leaves the roles to the next. */
const vhost = vhostForAll()
const server = sharedPostgres()
const PATIENCE_MS = 60_000
const QUEUE = 'shared'

let ledger: TestLedger
let active: Gateway
let standby: Gateway

beforeAll(async () => {
  ledger = await databaseOn(server())
  const options = { amqpUrl: vhost.url, ledger }
  active = await Gateway.start(options)
  await active.untilHealthy()
  standby = await Gateway.start(options)
})
afterAll(async () => {
  await Promise.all([active?.dispose(), standby?.dispose()])
  await ledger?.remove()
})

function swapRoles(): void {
  const before = active
  active = standby
  standby = before
}

function push(gateway: Gateway, queue = QUEUE): Promise<Answer> {
  return gateway.client.push({ type: 'test.job', args: [1], options: { queue } })
}

function idOf({ body }: Answer): string {
  return (body as { job: { id: string } }).job.id
}

async function stateAt(gateway: Gateway, id: string): Promise<unknown> {
  const { body } = await gateway.client.get(id)
  return (body as { job?: { state: unknown } }).job?.state
}

/** The answers to pushes one after the other, until `over`; the last may be one that failed. */
async function pushUntil(over: () => boolean): Promise<string[]> {
  const accepted: string[] = []
  while (!over()) {
    const answer = await push(active)
    if (answer.status === 201) accepted.push(idOf(answer))
  }
  return accepted
}

/** The value of a metric without labels; undefined: the page does not have it. */
async function metric(gateway: Gateway, name: string): Promise<number | undefined> {
  const { status, text } = await gateway.client.send('GET', '/metrics')
  expect(status).toBe(200)
  const [, value] = new RegExp(`^${name} (.+)$`, 'm').exec(text) ?? []
  return value === undefined ? undefined : Number(value)
}

/** Fetches and acknowledges until all of these were; what else comes, too. Returns each run. */
async function work(gateway: Gateway, ids: readonly string[]): Promise<string[]> {
  const runs: string[] = []
  await eventually(async () => {
    const asked = { queues: [QUEUE], count: 100, wait_ms: 500, worker_id: 'w' }
    for (const { id } of jobsOf(await gateway.client.fetch(asked))) {
      runs.push(id)
      await gateway.client.ack({ job_id: id })
    }
    return ids.every((id) => runs.includes(id))
  }, PATIENCE_MS)
  return runs
}

async function expectStandby(gateway: Gateway, of: Gateway): Promise<void> {
  await eventually(async () => {
    const { status, body } = await gateway.client.health()
    return status === 503 && body['status'] === 'standby' && body['active_url'] === of.url
  }, PATIENCE_MS)
  expect(await gateway.client.send('GET', '/healthz')).toMatchObject({ status: 200 })
  expect(await push(gateway)).toMatchObject({
    status: 503,
    headers: { 'retry-after': '1' },
    body: { error: { details: { reason: 'standby', active_url: of.url } } },
  })
}

test('one gateway serves, over HTTP and for native workers, and the other stands by', async () => {
  await expectStandby(standby, active)
  const id = idOf(await push(active))
  expect(await work(active, [id])).toEqual([id])
  const worker = new NativeWorker({ url: vhost.url, queues: ['native'] })
  worker.register('test.job', () => 'done')
  const native = idOf(await push(active, 'native'))
  await worker.start()
  await eventually(async () => (await stateAt(active, native)) === 'completed')
  await worker.stop()
  await eventually(async () => {
    const { body } = await active.client.health()
    return (body['ledger'] as { standbys: number }).standbys === 1
  })
  const { body } = await active.client.send('GET', '/ojs/manifest')
  expect(JSON.stringify(body)).toContain('"ha_mode":"active-passive"')
})

test('after a kill of the active gateway the other serves, and nothing is lost', async () => {
  let isOver = false
  const pushing = pushUntil(() => isOver)
  const first = idOf(await push(active))
  const fetched = jobsOf(await active.client.fetch({ queues: [QUEUE], worker_id: 'before' }))
  await new Promise((resolve) => setTimeout(resolve, 300))
  const secondsOfCpu = await metric(standby, 'process_cpu_seconds_total')
  expect([await metric(active, 'ojs_standby'), await metric(standby, 'ojs_standby')]).toEqual([
    0, 1,
  ])
  await active.kill9()
  isOver = true
  const accepted = await pushing
  swapRoles()
  await active.untilHealthy()
  expect(await metric(active, 'ojs_standby')).toBe(0)
  expect(await metric(active, 'process_cpu_seconds_total')).toBeGreaterThan(Number(secondsOfCpu))
  // A lease of before is acknowledged at the new one.
  for (const { id } of fetched)
    expect(await active.client.ack({ job_id: id, worker_id: 'before' })).toMatchObject({
      status: 200,
    })
  const waiting = [first, ...accepted].filter((id) => !fetched.some((job) => job.id === id))
  const runs = await work(active, waiting)
  expect(accepted.length).toBeGreaterThan(0)
  expect(new Set(runs).size).toBe(runs.length)
  await standby.restart()
  await expectStandby(standby, active)
})

test('a gateway that stood still for longer than its lease writes nothing afterwards', async () => {
  active.freeze()
  // It arrives before the gateway knows that it is not the active one any more.
  const late = push(active)
  const frozen = active
  swapRoles()
  await active.untilHealthy()
  const id = idOf(await push(active))
  frozen.thaw()
  expect((await late).status).not.toBe(201)
  await expectStandby(frozen, active)
  expect(await work(active, [id])).toEqual([id])
  const rows = await ledger.rows(`SELECT id FROM jobs WHERE ended_at IS NULL`)
  expect(rows).toEqual([])
})

test('a gateway that is stopped leaves its place to the other at once', async () => {
  const id = idOf(await push(active))
  expect(await active.stop()).toBe(0)
  swapRoles()
  await active.untilHealthy()
  expect(await work(active, [id])).toEqual([id])
  const lines = active.log.lines()
  const since = lines.slice(lines.findLastIndex(({ msg }) => msg === 'taking over'))
  expect(since.length).toBeGreaterThan(0)
  expect(since.filter(({ level }) => level === 'error')).toEqual([])
})
