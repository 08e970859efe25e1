import { describe, expect, test } from 'vitest'
import type { PrivateNode } from '../../support/broker/rabbit.ts'
import type { TestGateway } from '../../support/gateway/in-process.ts'
import {
  beat,
  fetched,
  nack,
  newQueue,
  PROFILES,
  pushed,
  restOf,
  untilState,
  useStage,
} from './stage.ts'

const SHORT = { visibility_timeout_ms: 150, worker_id: 'zombie' }

/** Workers that go on with a job that is not theirs any more (seed 001 §10.2). */
export function zombieFaults(node: PrivateNode): void {
  describe.each(PROFILES)('late and repeated settlements (%s)', (profile) => {
    const stage = useStage(node, { env: { OJS_QUEUE_TYPE: profile } })

    test('a second ACK, NACK or BEAT is 409 and changes nothing', async () => {
      const { gateway } = stage()
      const queue = newQueue()
      const [id] = (await pushed(gateway, queue, 1)) as [string]
      await fetched(gateway, queue, 1, { worker_id: 'w' })
      expect((await gateway.ack(id, { worker_id: 'w', attempt: 1, result: 1 })).status).toBe(200)
      const over = { current_state: 'completed' }
      for (const fence of [{}, { attempt: 1 }, { worker_id: 'w' }]) {
        expectConflict(await gateway.ack(id, { ...fence, result: 2 }), over)
        expectConflict(await nack(gateway, id, fence), over)
      }
      expectConflict(await beat(gateway, { worker_id: 'w', job_id: id, attempt: 1 }), over)
      const { job } = (await gateway.get(id)).body
      expect(job).toMatchObject({ state: 'completed', result: 1, attempt: 1 })
    })

    test('after the lease ran out, before another worker has the job, are 409', async () => {
      const { gateway } = stage()
      const queue = newQueue()
      const [id] = (await pushed(gateway, queue, 1)) as [string]
      await fetched(gateway, queue, 1, SHORT)
      await untilState(gateway, id, 'available')
      for (const fence of [{}, { attempt: 1 }, { worker_id: 'zombie' }]) {
        expectConflict(await gateway.ack(id, fence), { current_state: 'available' })
        expectConflict(await nack(gateway, id, fence), { current_state: 'available' })
      }
      const late = await beat(gateway, { worker_id: 'zombie', active_jobs: [id] })
      expect(late.body.jobs_extended).toEqual([])
      expect(await fetched(gateway, queue, 1)).toEqual([{ id, attempt: 2 }])
    })

    test('while another worker has the job, are 409 and do not touch its lease', async () => {
      const { gateway } = stage()
      const { queue, id } = await takenOver(gateway)
      for (const fence of [{ attempt: 1 }, { attempt: 1, worker_id: 'zombie' }]) {
        const stale = { current_state: 'active', reason: 'stale_attempt' }
        expectConflict(await gateway.ack(id, fence), stale)
        expectConflict(await nack(gateway, id, fence), stale)
        expectConflict(await beat(gateway, { ...SHORT, job_id: id, ...fence }), stale)
      }
      const other = { current_state: 'active', reason: 'other_worker' }
      expectConflict(await gateway.ack(id, { worker_id: 'zombie' }), other)
      expectConflict(await nack(gateway, id, { worker_id: 'zombie' }), other)
      expectConflict(await beat(gateway, { ...SHORT, job_id: id, attempt: 2 }), other)
      // The list form names no attempt, so the id is only left out of the answer.
      const listed = await beat(gateway, { worker_id: 'zombie', active_jobs: [id] })
      expect(listed.status).toBe(200)
      expect(listed.body.jobs_extended).toEqual([])

      const mine = await beat(gateway, { worker_id: 'heir', job_id: id, attempt: 2 })
      expect(mine.body.jobs_extended).toEqual([id])
      expect((await gateway.ack(id, { worker_id: 'heir', attempt: 2 })).status).toBe(200)
      const { job } = (await gateway.get(id)).body
      expect(job).toMatchObject({ state: 'completed', attempt: 2 })
      expect(job.errors).toHaveLength(1)
      expect(await restOf(gateway, queue)).toEqual([])
    })

    test('with a bare job_id settle the lease that there is, whoever has it', async () => {
      const { gateway } = stage()
      const { id: acked } = await takenOver(gateway)
      expect((await gateway.ack(acked)).body.state).toBe('completed')
      const own = { worker_id: 'heir', attempt: 2 }
      expectConflict(await gateway.ack(acked, own), { current_state: 'completed' })
      const { id: nacked } = await takenOver(gateway)
      expect((await nack(gateway, nacked)).body).toMatchObject({ state: 'retryable', attempt: 2 })
      expectConflict(await gateway.ack(nacked, own), { current_state: 'retryable' })
    })
  })
}

/** A job whose lease at `zombie` ran out and that `heir` has now, as its attempt 2. */
async function takenOver(gateway: TestGateway): Promise<{ queue: string; id: string }> {
  const queue = newQueue()
  const [id] = (await pushed(gateway, queue, 1)) as [string]
  expect(await fetched(gateway, queue, 1, SHORT)).toEqual([{ id, attempt: 1 }])
  expect(await fetched(gateway, queue, 1, { worker_id: 'heir' })).toEqual([{ id, attempt: 2 }])
  return { queue, id }
}

function expectConflict(answer: Awaited<ReturnType<TestGateway['get']>>, details: object): void {
  expect(answer.status).toBe(409)
  expect(answer.body.error).toMatchObject({ code: 'invalid_request', retryable: false, details })
}
