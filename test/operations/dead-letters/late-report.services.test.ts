import { beforeEach, describe, expect, it } from 'vitest'
import { fetchOne, freshQueue, gatewayForAll, nack, stateOf, untilState } from '../harness.ts'

const W1 = { worker_id: 'w1' }
const SHORT = { ...W1, visibility_timeout_ms: 600 }
const LONG = { ...W1, visibility_timeout_ms: 3_600_000 }

const { gateway } = gatewayForAll()
let queue = ''
beforeEach(() => {
  queue = freshQueue()
})

/** A dead letter whose handler hangs, and which the same worker runs again, as attempt 1 again. */
async function revived(): Promise<{ id: string; first: object; second: object }> {
  await gateway.push(queue, { options: { retry: { max_attempts: 1 } } })
  const hung = await fetchOne(gateway, queue, SHORT)
  expect(hung).not.toHaveProperty('generation')
  await untilState(gateway, hung.id, 'discarded')
  await gateway.request('POST', `/ojs/v1/dead-letter/${hung.id}/retry`)
  const again = await fetchOne(gateway, queue, LONG)
  expect(again).toMatchObject({ id: hung.id, attempt: 1, generation: 1 })
  expect((await gateway.get(hung.id)).body.job).toMatchObject({ generation: 1 })
  const lease = { ...W1, attempt: 1 }
  return {
    id: hung.id,
    first: { ...lease, generation: 0 },
    second: { ...lease, generation: again.generation },
  }
}

const beat = (body: object) => gateway.request('POST', '/ojs/v1/workers/heartbeat', body)

const STALE = {
  status: 409,
  body: { error: { details: { current_state: 'active', reason: 'stale_generation' } } },
}

describe('a late report from before the retry of a dead letter', () => {
  it('is refused by the generation, and the second run settles its own lease', async () => {
    const { id, first, second } = await revived()
    expect(await gateway.ack(id, first)).toMatchObject(STALE)
    expect(await nack(gateway, id, {}, first)).toMatchObject(STALE)
    expect(await nack(gateway, id, {}, { ...first, requeue: true })).toMatchObject(STALE)
    expect(await beat({ ...first, job_id: id })).toMatchObject(STALE)
    expect(await beat({ ...W1, job_id: id, generation: 0 })).toMatchObject(STALE)
    expect(await stateOf(gateway, id)).toBe('active')

    const beaten = await beat({ ...second, job_id: id })
    expect(beaten.body).toMatchObject({ jobs_extended: [id] })
    expect((await gateway.ack(id, second)).status).toBe(200)
    expect(await stateOf(gateway, id)).toBe('completed')
  })

  it('is also refused where it names no more than the generation', async () => {
    const { id, second } = await revived()
    expect(await gateway.ack(id, { generation: 0 })).toMatchObject(STALE)
    expect(await gateway.ack(id, { generation: 2 })).toMatchObject(STALE)
    expect((await nack(gateway, id, {}, second)).body).toMatchObject({ state: 'discarded' })
  })

  it('cannot be told from one of the second run without a generation, which a client need not send', async () => {
    const { id } = await revived()
    const answer = await gateway.ack(id, { ...W1, attempt: 1, generation: null })
    expect(answer.status).toBe(200)
  })
})
