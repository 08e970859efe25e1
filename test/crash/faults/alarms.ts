import { describe, expect, onTestFailed, test } from 'vitest'
import type { PrivateNode } from '../../support/broker/rabbit.ts'
import { beat, fetched, nack, openStage, pushed, restOf, untilState } from './stage.ts'

/** What `rabbitmqctl set_disk_free_limit` and `set_vm_memory_high_watermark absolute` call. */
const DISK = (limit: string) => `rabbit_disk_monitor:set_disk_free_limit("${limit}")`
const MEMORY = (limit: string) =>
  `vm_memory_monitor:set_vm_memory_high_watermark({absolute, "${limit}"})`
const ALARMS: [name: string, raise: string, clear: string][] = [
  ['disk', DISK('999999GB'), DISK('50MB')],
  ['memory', MEMORY('1MB'), MEMORY('512MB')],
]
/** The NACK under the alarm finds no retry queue that it could declare and publish to. */
const RETRY = { options: { retry: { initial_interval_ms: 100, jitter: false } } }
/** Longer than the alarm, so that neither the publish under it nor a lease runs out. */
const ENV = { OJS_PUBLISH_TIMEOUT_MS: '120000', OJS_VISIBILITY_TIMEOUT_MS: '120000' }

export function alarmFaults(node: PrivateNode): void {
  describe.each(ALARMS)('%s alarm', (_name, raise, clear) => {
    test('PUSH is 503 at once; FETCH, ACK, NACK and BEAT go on; PUSH works again afterwards', async () => {
      const { gateway } = await openStage(node, { env: ENV })
      const ids = await pushed(gateway, 'q', 4, RETRY)
      const [toAck, toNack, toFetch, toLeave] = ids as [string, string, string, string]
      const first = await fetched(gateway, 'q', 2, { worker_id: 'w' })
      expect(first.map((job) => job.id)).toEqual([toAck, toNack])

      onTestFailed(() => node.evaluate(clear).then(() => {}))
      await node.evaluate(raise)
      // It takes effect a moment later: until then a publish would be confirmed, and nobody would hear of the alarm.
      await expect
        .poll(() => node.evaluate('rabbit_alarm:get_alarms()'), { timeout: 20_000 })
        .not.toBe('[]')
      // RabbitMQ reports its alarm only when something is published; that publish has no answer yet.
      let isAnswered = false
      const caught = gateway.push('q').finally(() => {
        isAnswered = true
      })
      await expect.poll(() => backend(gateway), { timeout: 20_000 }).toBe('blocked')
      const refused = await gateway.push('q')
      expect(refused.status).toBe(503)
      expect(refused.body.error).toMatchObject({
        code: 'backend_error',
        retryable: true,
        details: { reason: 'broker_blocked' },
      })
      expect(refused.headers.get('retry-after')).toBe('1')
      expect(isAnswered).toBe(false)

      expect((await gateway.ack(toAck, { worker_id: 'w', attempt: 1 })).status).toBe(200)
      expect((await nack(gateway, toNack, { worker_id: 'w' })).body.state).toBe('retryable')
      expect(await fetched(gateway, 'q', 1, { worker_id: 'w' })).toMatchObject([{ id: toFetch }])
      const beaten = await beat(gateway, { worker_id: 'w', active_jobs: [toFetch] })
      expect(beaten.body.jobs_extended).toEqual([toFetch])
      expect((await gateway.ack(toFetch)).status).toBe(200)
      await untilState(gateway, toNack, 'available')

      await node.evaluate(clear)
      expect((await caught).status).toBe(201)
      await expect.poll(() => backend(gateway), { timeout: 20_000 }).toBe('connected')
      const after = (await gateway.push('q')).body.job.id
      const late = await fetched(gateway, 'q', 4)
      expect(new Set(late.map((job) => job.id))).toEqual(
        new Set([toLeave, toNack, (await caught).body.job.id, after]),
      )
      expect(late.find((job) => job.id === toNack)?.attempt).toBe(2)
      expect(await restOf(gateway, 'q')).toEqual([])
    })
  })
}

async function backend(gateway: { request: (method: string, path: string) => Promise<Health> }) {
  return (await gateway.request('GET', '/ojs/v1/health')).body.backend.status
}

interface Health {
  body: { backend: { status: string } }
}
