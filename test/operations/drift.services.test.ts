import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import amqp from 'amqplib'
import { afterAll, afterEach, describe, expect, it, vi } from 'vitest'
import { recoverCommand } from '../../src/cli/recover.ts'
import { eventually } from '../support/gateway/in-process.ts'
import { fetchMany, gatewayForAll, withChannel } from './harness.ts'

// A minute becomes half a second: looks are 100 ms apart.
const OJS_TOPOLOGY = join(mkdtempSync(join(tmpdir(), 'ojs-drift-')), 'topology.json')
const shipped = readFileSync(join(import.meta.dirname, '../../topology/topology.json'), 'utf8')
writeFileSync(
  OJS_TOPOLOGY,
  JSON.stringify({ ...JSON.parse(shipped), queues: { plain: { plainConsumers: true } } }),
)
afterAll(() => rmSync(dirname(OJS_TOPOLOGY), { recursive: true }))
const tuning = { watchMs: 100, driftMs: 500, idleMs: 50 }
const { vhost, gateway } = gatewayForAll({ OJS_TOPOLOGY }, tuning)

interface Warning {
  code: string
  details: { queue: string; count: number }
}

async function countOf(queue: string): Promise<number> {
  const { body } = await gateway.request('GET', '/ojs/v1/health')
  const isOfQueue = ({ code, details }: Warning) =>
    code === 'jobs_without_message' && details.queue === queue
  return body.warnings.find(isOfQueue)?.details.count ?? 0
}

async function pushed(queue: string, count: number): Promise<string[]> {
  const ids: string[] = []
  for (let i = 0; i < count; i++) ids.push((await gateway.push(queue)).body.job.id)
  return ids
}

const recover = (queue: string, body?: object) =>
  gateway.request('POST', `/ojs/v1/admin/queues/${queue}/recover`, body)

afterEach(() => vi.restoreAllMocks())

const open: amqp.ChannelModel[] = []
afterAll(async () => {
  for (const connection of open) await connection.close()
})

/** A program that acknowledges what it gets, and reports nothing. */
async function consumer(queue: string): Promise<amqp.ChannelModel> {
  const connection = await amqp.connect(vhost.url)
  open.push(connection)
  const channel = await connection.createChannel()
  await channel.consume(`ojs.queue.${queue}`, (message) => message && channel.ack(message))
  return connection
}

describe('jobs whose messages are gone', () => {
  it('are published again when nobody else was on their queue', async () => {
    const queue = 'purged'
    // The gateway has looked at the queue before the jobs came, and holds none of them.
    await gateway.ack((await fetchOneOf(queue))[0] ?? '')
    const consumers = async () =>
      (await withChannel(vhost.url, (channel) => channel.checkQueue(`ojs.queue.${queue}`)))
        .consumerCount
    await expect.poll(consumers).toBe(0)
    const ids = await pushed(queue, 3)
    await withChannel(vhost.url, (channel) => channel.purgeQueue(`ojs.queue.${queue}`))
    const jobs = await fetchMany(gateway, queue, 3)
    expect(jobs.map(({ id, attempt }) => [id, attempt])).toEqual(ids.map((id) => [id, 1]))
    expect(await countOf(queue)).toBe(0)
  })

  it('are published again on a queue that is new', async () => {
    const ids = await pushed('fresh', 2)
    await withChannel(vhost.url, (channel) => channel.purgeQueue('ojs.queue.fresh'))
    // Without a FETCH meanwhile: nobody but the gateway may have looked at the queue.
    const ready = () => withChannel(vhost.url, (channel) => channel.checkQueue('ojs.queue.fresh'))
    await expect.poll(async () => (await ready()).messageCount, { timeout: 15_000 }).toBe(2)
    const jobs = await gateway.fetch(['fresh'], { count: 2, wait_ms: 10_000 })
    expect(jobs.map(({ id }) => id)).toEqual(ids)
  })

  it('are counted in health when another consumer was there, until they are recovered', async () => {
    const queue = 'acked'
    const [first = ''] = await pushed(queue, 1)
    await gateway.ack((await fetchMany(gateway, queue, 1))[0].id)
    const foreign = await consumer(queue)
    const ids = await pushed(queue, 2)
    await eventually(async () => (await countOf(queue)) === 2)
    await foreign.close()
    open.splice(0)
    // It may have run them, so they wait for an operator, however long.
    await new Promise((resolve) => setTimeout(resolve, 1_500))
    expect(await gateway.fetch([queue])).toEqual([])
    expect(await countOf(queue)).toBe(2)
    const path = `/ojs/v1/admin/queues/${queue}?include=rabbitmq`
    expect((await gateway.request('GET', path)).body.rabbitmq).toMatchObject({ missing: 2 })
    const listed = { queue, dry_run: true, jobs_without_message: 2, job_ids: ids }
    expect((await recover(queue, { dry_run: true })).body).toEqual(listed)
    expect(await recover(queue, { dry_run: 'yes' })).toMatchObject({
      status: 400,
      body: { error: { details: { field: 'dry_run' } } },
    })
    expect(ids).not.toContain(first)
    const env = { OJS_URL: gateway.url }
    vi.spyOn(console, 'log').mockImplementation(() => {})
    expect(await recoverCommand.run(['--queue', queue, '--dry-run'], env)).toBe(0)
    expect(await gateway.fetch([queue])).toEqual([])
    expect(await recoverCommand.run(['--queue', queue], env)).toBe(0)
    const jobs = await fetchMany(gateway, queue, 2)
    expect(jobs.map(({ id }) => id)).toEqual(ids)
    await eventually(async () => (await countOf(queue)) === 0)
    expect(await recover(queue)).toMatchObject({ status: 409 })
    expect((await recover(queue, { dry_run: true })).body.jobs_without_message).toBe(0)
  })

  it('are not suspected while their messages are in the queue, or held by the gateway', async () => {
    const queue = 'sound'
    const limited = { options: { rate_limit: { max_per_second: 0.1 } } }
    const ids: string[] = []
    for (let i = 0; i < 2; i++) ids.push((await gateway.push(queue, limited)).body.job.id)
    // The second one is parked here: its limit is used up.
    const [job] = await gateway.fetch([queue], { count: 2, wait_ms: 500 })
    expect(job.id).toBe(ids[0])
    await pushed('waiting', 2)
    await new Promise((resolve) => setTimeout(resolve, 1_500))
    for (const name of [queue, 'waiting']) {
      expect(await countOf(name)).toBe(0)
      expect((await recover(name, { dry_run: true })).body.jobs_without_message).toBe(0)
    }
    expect(await gateway.fetch(['waiting'], { count: 5 })).toHaveLength(2)
  })
})

describe('consumers that only acknowledge', () => {
  const entryOf = (name: string) => ({
    ...{ name, cron: '* * * * * *', type: 'report.build', args: [], options: { queue: name } },
  })
  const eventsOf = async (type: string, name: string) => {
    const { body } = await gateway.request('GET', `/ojs/v1/events?types=${type}&limit=1000`)
    const isOfEntry = ({ data }: { data: { cron_name?: string } }) => data.cron_name === name
    return body.events.filter(isOfEntry).length
  }

  it('stop a cron entry, and health says so, until the job is cancelled', async () => {
    const name = 'stuck'
    expect((await gateway.request('POST', '/ojs/v1/cron', entryOf(name))).status).toBe(201)
    await consumer(name)
    const blocked = async () => {
      const { body } = await gateway.request('GET', '/ojs/v1/health')
      return body.warnings.find(({ code }: Warning) => code === 'cron_blocked')?.details
    }
    await eventually(async () => (await blocked()) !== undefined)
    expect(await blocked()).toMatchObject({ cron: name, queue: name })
    expect(await countOf(name)).toBe(1)
    await gateway.cancel((await blocked()).job_id)
    await eventually(async () => (await eventsOf('cron.triggered', name)) > 1)
    await gateway.request('DELETE', `/ojs/v1/cron/${name}`)
    expect(await blocked()).toBeUndefined()
  })

  it('do not, with plainConsumers: a job whose message is gone is completed', async () => {
    const unique = { keys: ['type'], on_conflict: 'reject' }
    const first = await gateway.push('plain', { options: { unique } })
    expect((await gateway.push('plain', { options: { unique } })).status).toBe(409)
    // Not yet: its message is in the queue.
    await new Promise((resolve) => setTimeout(resolve, 1_200))
    expect((await gateway.get(first.body.job.id)).body.job.state).toBe('available')
    await consumer('plain')
    await eventually(
      async () => (await gateway.push('plain', { options: { unique } })).status === 201,
    )
    const { job } = (await gateway.get(first.body.job.id)).body
    expect(job).toMatchObject({ state: 'completed', attempt: 1 })
    expect(await countOf('plain')).toBe(0)
  })
})

async function fetchOneOf(queue: string): Promise<string[]> {
  await pushed(queue, 1)
  return (await fetchMany(gateway, queue, 1)).map(({ id }) => id)
}
