import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { v7 } from 'uuid'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { PrivateNode, Vhost } from '../../support/broker/rabbit.ts'
import { eventually, type TestGateway } from '../../support/gateway/in-process.ts'
import { untilRemembered } from '../new-queues.ts'
import { fetched, openStage, operate, PROFILES, pushBatch, pushed, restOf } from './stage.ts'

/** Of the queue `full`. */
const LIMIT = 5
const SHIPPED = new URL('../../../topology/topology.json', import.meta.url)

export function queueFullFaults(node: PrivateNode): void {
  describe('queue that is full', () => {
    test.each(PROFILES)(
      'by a limit in the topology file: PUSH is 429, and accepted jobs are kept (%s)',
      async (profile) => {
        const { gateway } = await openStage(node, {
          env: { OJS_QUEUE_TYPE: profile, OJS_TOPOLOGY: limitedTopology() },
        })
        await expectRefusals(gateway, [])
        // The limit is of one queue only.
        await pushed(gateway, 'other', 3 * LIMIT)
      },
    )

    test('and RabbitMQ is killed while consumers hold more than its limit: accepted jobs are kept', async () => {
      const { gateway, vhost } = await openStage(node, {
        env: { OJS_TOPOLOGY: limitedTopology() },
      })
      const [leased] = await pushed(gateway, 'full', 1)
      expect(await fetched(gateway, 'full', 1)).toEqual([{ id: leased, attempt: 1 }])
      const accepted: string[] = []
      await eventuallyFull(gateway, v7(), accepted)
      await untilRemembered(node, ['ojs.queue.full'], vhost)
      await node.kill9()
      await node.restart()
      await eventually(async () => (await gateway.push('other')).status === 201)
      const jobs = await fetched(gateway, 'full', accepted.length)
      expect(new Set(jobs.map(({ id }) => id))).toEqual(new Set(accepted))
      for (const { id } of jobs) expect((await gateway.ack(id)).status).toBe(200)
      expect((await gateway.ack(leased ?? '')).status).toBe(200)
      expect(await restOf(gateway, 'full')).toEqual([])
    })

    test.each(PROFILES)(
      'by a policy that came while it was in use: PUSH is 429, and accepted jobs are kept (%s)',
      async (profile) => {
        const env = { OJS_QUEUE_TYPE: profile }
        const { gateway, vhost } = await openStage(node, { env })
        const before = await pushed(gateway, 'full', 2)
        await limitByPolicy(node, vhost)
        await expectRefusals(gateway, before)
      },
    )
  })
}

/** `accepted`: ids of the jobs that are in the queue already. */
async function expectRefusals(gateway: TestGateway, accepted: string[]): Promise<void> {
  const refused = v7()
  const answer = await eventuallyFull(gateway, refused, accepted)
  expect(answer.status).toBe(429)
  expect(answer.headers.get('retry-after')).toBe('1')
  expect(answer.body.error).toMatchObject({
    code: 'rate_limited',
    retryable: true,
    details: { reason: 'queue_full', queue: 'full' },
  })
  const batch = Array.from({ length: 10 }, () => v7())
  const job = (id: string) => ({ id, type: 'test.job', args: [], options: { queue: 'full' } })
  const all = await pushBatch(gateway, batch.map(job))
  expect(all.status).toBe(429)
  expect(all.headers.get('retry-after')).toBe('1')
  expect(all.body.error).toMatchObject({ code: 'rate_limited', details: { reason: 'queue_full' } })
  for (const id of [refused, ...batch]) expect((await gateway.get(id)).status).toBe(404)

  // Exactly what was accepted comes out, in order, and then there is room again.
  const jobs = await fetched(gateway, 'full', accepted.length)
  expect(jobs).toEqual(accepted.map((id) => ({ id, attempt: 1 })))
  for (const { id } of jobs) expect((await gateway.ack(id)).status).toBe(200)
  expect(await restOf(gateway, 'full')).toEqual([])
  await eventually(async () => (await gateway.push('full', { id: refused })).status === 201)
  expect(await fetched(gateway, 'full', 1)).toEqual([{ id: refused, attempt: 1 }])
  expect(await restOf(gateway, 'full')).toEqual([])
}

/** Pushes until a job is refused, because the limit is soft, and a policy takes its time. */
async function eventuallyFull(gateway: TestGateway, next: string, accepted: string[]) {
  for (let i = 0; i < 500; i++) {
    const id = v7()
    const answer = await gateway.push('full', { id })
    if (answer.status !== 201) return gateway.push('full', { id: next })
    accepted.push(id)
  }
  throw new Error(`${accepted.length} jobs, and the queue is not full`)
}

/** The shipped topology with a limit for the queue `full`. */
export function limitedTopology(): string {
  const dir = mkdtempSync(join(tmpdir(), 'ojs-topology-'))
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }))
  const path = join(dir, 'topology.json')
  const shipped: object = JSON.parse(readFileSync(SHIPPED, 'utf8'))
  writeFileSync(path, JSON.stringify({ ...shipped, queues: { full: { maxLength: LIMIT } } }))
  return path
}

function limitByPolicy(node: PrivateNode, { name }: Vhost): Promise<void> {
  return operate(node, `/policies/${name}/full`, {
    pattern: '^ojs\\.queue\\.full$',
    definition: { 'max-length': LIMIT, overflow: 'reject-publish' },
    'apply-to': 'queues',
  })
}
