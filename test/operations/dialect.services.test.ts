import { describe, expect, it } from 'vitest'
import { fetchOne, freshQueue, gatewayForAll } from './harness.ts'

// T1 to T4 of src/dialect.ts over HTTP. The public suite checks them too, where it is available.

const { gateway: seed } = gatewayForAll()
const { gateway: conformance } = gatewayForAll({ OJS_DIALECT: 'conformance' })

describe.each([
  ['seed', seed],
  ['conformance', conformance],
] as const)('OJS_DIALECT=%s', (dialect, gateway) => {
  const isSeed = dialect === 'seed'

  it('T1: a 409 for a job that is not active has the code of the dialect', async () => {
    const { id } = (await gateway.push(freshQueue())).body.job
    const code = isSeed ? 'invalid_request' : 'conflict'
    expect(await gateway.ack(id)).toMatchObject({
      status: 409,
      body: { error: { code, retryable: false, details: { current_state: 'available' } } },
    })
    await gateway.cancel(id)
    const jobs = [{ type: 'a', args: [], options: { queue: freshQueue() } }]
    const made = await gateway.request('POST', '/ojs/v1/workflows', { type: 'group', jobs })
    const workflow = `/ojs/v1/workflows/${made.body.id}`
    await gateway.request('DELETE', workflow)
    const over = [
      await gateway.cancel(id),
      await gateway.request('POST', `/ojs/v1/jobs/${id}/activate`),
      await gateway.request('DELETE', workflow),
    ]
    expect(over.map(({ status, body }) => [status, body.error.code])).toEqual(
      Array(3).fill([409, code]),
    )
  })

  it('answers a heartbeat with the test_directive of the suite’s job only for that suite', async () => {
    const queue = freshQueue()
    const metadata = { test_directive: 'quiet' }
    const { id } = (await gateway.push(queue, { options: { metadata } })).body.job
    const worker_id = `w-${queue}`
    await fetchOne(gateway, queue, { worker_id })
    const beat = async (active_jobs: string[]) => {
      const body = { worker_id, active_jobs }
      return (await gateway.request('POST', '/ojs/v1/workers/heartbeat', body)).body.state
    }
    expect(await beat([id])).toBe(isSeed ? 'running' : 'quiet')
    // It is not kept: the worker itself was told nothing.
    expect(await beat([])).toBe('running')
  })

  it('T2, T3: a paused queue accepts or refuses PUSH, and is answered as name or object', async () => {
    const queue = freshQueue()
    await gateway.push(queue)
    const path = `/ojs/v1/queues/${queue}`
    const { body: paused } = await gateway.request('POST', `${path}/pause`)
    expect(paused).toMatchObject({ status: 'paused', paused_at: expect.any(String) })
    expect(paused.queue).toEqual(isSeed ? queue : { name: queue, paused: true })
    expect((await gateway.push(queue)).status).toBe(isSeed ? 422 : 201)
    expect(await gateway.fetch([queue])).toEqual([])

    const { body: stats } = await gateway.request('GET', `${path}/stats`)
    const available = isSeed ? 1 : 2
    expect(stats.stats).toMatchObject({ available, active: 0 })
    if (isSeed) expect(stats.queue).toBe(queue)
    else expect(stats.queue).toMatchObject({ name: queue, available, active: 0, completed: 0 })

    const { body: resumed } = await gateway.request('POST', `${path}/resume`)
    expect(resumed.queue).toEqual(isSeed ? queue : { name: queue, paused: false })
    for (let i = 0; i < available; i++) await fetchOne(gateway, queue)
  })

  const job = { type: 'Email.Send', args: [] }
  it.each<[string, string, object]>([
    ['PUSH', '/ojs/v1/jobs', job],
    ['a batch', '/ojs/v1/jobs/batch', { jobs: [job] }],
    ['a recurring job', '/ojs/v1/cron', { ...job, name: 't4', cron: '0 0 1 1 *' }],
    [
      'a workflow',
      '/ojs/v1/workflows',
      { name: 't4', steps: [{ ...job, id: 'a', depends_on: [] }] },
    ],
  ])(
    'T4: upper case in the type of %s is accepted by seed and refused by conformance',
    async (_what, path, body) => {
      const answer = await gateway.request('POST', path, body)
      expect(answer.status, JSON.stringify(answer.body)).toBe(isSeed ? 201 : 400)
    },
  )
})
