import amqp from 'amqplib'
import { v7 } from 'uuid'
import { describe, expect, test } from 'vitest'
import { eventually } from '../../support/gateway/in-process.ts'
import { fetchOne, freshQueue, gatewayForAll, startJob, stateOf } from '../harness.ts'

const { gateway, vhost } = gatewayForAll({ OJS_VISIBILITY_TIMEOUT_MS: '600000' })

const ERROR = { code: 'handler_error', message: 'no' }
const NO_DELAY = { retry: { max_attempts: 5, initial_interval_ms: 1, jitter: false } }
const put = (id: string, what: 'progress' | 'checkpoint', body: object) =>
  gateway.request('PUT', `/ojs/v1/jobs/${id}/${what}`, body)
const read = (id: string, what: 'progress' | 'checkpoint' | 'result', query = '') =>
  gateway.request('GET', `/ojs/v1/jobs/${id}/${what}${query}`)
const nack = (id: string, over: object = {}) =>
  gateway.request('POST', '/ojs/v1/workers/nack', { job_id: id, error: ERROR, ...over })

describe('progress', () => {
  test('PRG-001, PRG-004: PUT reports it, GET reads it, and INFO shows it', async () => {
    const { id } = await startJob(gateway, freshQueue())
    const none = await read(id, 'progress')
    expect(none.body).toEqual({
      job_id: id,
      state: 'active',
      attempt: 1,
      progress: null,
      data: null,
    })
    const told = await put(id, 'progress', { progress: 0.42, message: 'm', data: { page: 21 } })
    const shown = { job_id: id, state: 'active', progress: 0.42, message: 'm', data: { page: 21 } }
    expect(told).toMatchObject({ status: 200, body: shown })
    const found = await read(id, 'progress')
    expect(found.body).toEqual(told.body)
    expect(found.headers.get('x-ojs-progress')).toBe('0.42')
    expect(found.headers.get('cache-control')).toBe('no-cache')
    expect((await gateway.get(id)).body.job).toMatchObject({
      progress: 0.42,
      progress_data: { page: 21 },
      progress_message: 'm',
    })
  })

  test('by the path of the SDKs, in percent', async () => {
    const { id } = await startJob(gateway, freshQueue())
    const body = { job_id: id, percentage: 25, message: 'a quarter' }
    const told = await gateway.request('POST', '/ojs/v1/workers/progress', body)
    expect(told.body).toMatchObject({ progress: 0.25, message: 'a quarter' })
  })

  test('PRG-002, PRG-003: it is cut to 0…1 and never decreases within an attempt', async () => {
    const queue = freshQueue()
    const { id } = await startJob(gateway, queue)
    const shownAfter = async (progress: number) =>
      (await put(id, 'progress', { progress })).body.progress
    expect([
      await shownAfter(-1),
      await shownAfter(0.7),
      await shownAfter(0.3),
      await shownAfter(7),
    ]).toEqual([0, 0.7, 0.7, 1])
    // Each of them counts, not only those that an event tells of.
    const { body } = await gateway.request('GET', '/metrics')
    expect(body).toMatch(new RegExp(`^ojs_progress_updates_total{queue="${queue}",.*} 4$`, 'm'))
  })

  test('PRG-005: it is 1 once the job is completed, if it was used', async () => {
    const [used, unused] = [
      await startJob(gateway, freshQueue()),
      await startJob(gateway, freshQueue()),
    ]
    await put(used.id, 'progress', { progress: 0.2 })
    await gateway.ack(used.id)
    await gateway.ack(unused.id)
    expect((await read(used.id, 'progress')).body).toMatchObject({
      state: 'completed',
      progress: 1,
    })
    expect((await read(unused.id, 'progress')).body.progress).toBe(null)
  })

  test('PRG-006: the last value stays after a failure, until the next attempt', async () => {
    const queue = freshQueue()
    const { id } = await startJob(gateway, queue, NO_DELAY)
    await put(id, 'progress', { progress: 0.4 })
    await nack(id)
    expect((await read(id, 'progress')).body.progress).toBe(0.4)
    await fetchOne(gateway, queue)
    expect((await read(id, 'progress')).body).toMatchObject({ attempt: 2, progress: null })
  })

  test('PRG-007: of a job that is not active, or no longer the worker’s, it is ignored', async () => {
    const waiting = (await gateway.push(freshQueue())).body.job.id
    const { id } = await startJob(gateway, freshQueue())
    const told = await put(waiting, 'progress', { progress: 0.4 })
    expect(told).toMatchObject({ status: 200, body: { state: 'available', progress: null } })
    const late = await put(id, 'progress', { progress: 0.4, attempt: 7 })
    expect(late).toMatchObject({ status: 200, body: { progress: null } })
    await gateway.ack(id)
    expect((await put(id, 'progress', { progress: 0.4 })).status).toBe(200)
    expect((await put(v7(), 'progress', { progress: 0.4 })).status).toBe(404)
  })

  test('PRG-008: it counts as a heartbeat', async () => {
    const { id } = await startJob(gateway, freshQueue(), { visibility_timeout_ms: 1_500 })
    const until = performance.now() + 4_000
    while (performance.now() < until) {
      expect((await put(id, 'progress', { progress: 0.1 })).body.state).toBe('active')
      await new Promise((resolve) => setTimeout(resolve, 300))
    }
    expect((await gateway.get(id)).body.job).toMatchObject({ state: 'active', attempt: 1 })
  })

  test.each([
    [{}, 'progress'],
    [{ progress: '0.5' }, 'progress'],
    [{ data: [1] }, 'data'],
    [{ message: 5 }, 'message'],
    [{ workerId: 'w', progress: 1 }, 'workerId'],
    [{ progress: null, message: null }, 'progress'],
  ])('%j is a 400 that names %s', async (body, field) => {
    const { id } = await startJob(gateway, freshQueue())
    const { status, body: answer } = await put(id, 'progress', body)
    expect({ status, field: answer.error.details.field }).toEqual({ status: 400, field })
  })

  test('data above 64 KiB is a 413, a long message is cut', async () => {
    const { id } = await startJob(gateway, freshQueue())
    const large = await put(id, 'progress', { data: { a: 'ü'.repeat(33_000) } })
    expect(large).toMatchObject({
      status: 413,
      body: { error: { details: { field: 'data', reason: 'payload_too_large' } } },
    })
    const long = await put(id, 'progress', { message: 'x'.repeat(2_000) })
    expect(long.body.message).toHaveLength(1_000)
  })
})

describe('checkpoints', () => {
  test('DUR-001, DUR-002, DUR-003: are saved, read and deleted', async () => {
    const { id } = await startJob(gateway, freshQueue())
    expect((await read(id, 'checkpoint')).status).toBe(404)
    const saved = await put(id, 'checkpoint', { state: { page: 3 } })
    const facts = { job_id: id, sequence: 1, created_at: expect.any(String) }
    expect(saved).toMatchObject({ status: 200, body: { ...facts, checkpoint: facts } })
    const whole = { ...facts, state: { page: 3 } }
    expect((await read(id, 'checkpoint')).body).toEqual({ ...whole, checkpoint: whole })
    const remove = async () =>
      (await gateway.request('DELETE', `/ojs/v1/jobs/${id}/checkpoint`)).body
    expect(await remove()).toEqual({ deleted: true, job_id: id })
    expect(await remove()).toEqual({ deleted: false, job_id: id })
    expect((await read(id, 'checkpoint')).status).toBe(404)
  })

  test('DUR-004: a job that is fetched again has its checkpoint', async () => {
    const queue = freshQueue()
    const first = await startJob(gateway, queue, NO_DELAY)
    expect(first).not.toHaveProperty('checkpoint')
    await put(first.id, 'progress', { progress: 0.1, checkpoint: [1, 'two'] })
    await nack(first.id)
    await gateway.restart()
    const second = await fetchOne(gateway, queue)
    expect(second).toMatchObject({
      id: first.id,
      attempt: 2,
      checkpoint: { state: [1, 'two'], sequence: 1 },
      last_checkpoint: [1, 'two'],
    })
    await nack(first.id, { requeue: true })
    expect((await fetchOne(gateway, queue)).last_checkpoint).toEqual([1, 'two'])
  })

  test('DUR-005: the end of the job deletes it; a dead letter keeps it for its retry', async () => {
    const ends = [
      (id: string) => gateway.ack(id),
      (id: string) => gateway.cancel(id),
      (id: string) => nack(id, { error: { ...ERROR, code: 'DISCARD' } }),
    ]
    for (const end of ends) {
      const { id } = await startJob(gateway, freshQueue())
      await put(id, 'checkpoint', { state: 1 })
      expect((await end(id)).status).toBe(200)
      expect((await read(id, 'checkpoint')).status).toBe(404)
    }
    const queue = freshQueue()
    const { id } = await startJob(gateway, queue)
    await put(id, 'checkpoint', { state: 'kept' })
    await nack(id, { error: { ...ERROR, code: 'DEAD_LETTER' } })
    expect((await read(id, 'checkpoint')).body.state).toBe('kept')
    await gateway.request('POST', `/ojs/v1/dead-letter/${id}/retry`)
    expect((await fetchOne(gateway, queue)).checkpoint.state).toBe('kept')
  })

  test('DUR-006: may have 1 MiB, and no byte more', async () => {
    const { id } = await startJob(gateway, freshQueue())
    const state = 'x'.repeat(1_048_574)
    expect((await put(id, 'checkpoint', { state })).status).toBe(200)
    const larger = await put(id, 'checkpoint', { state: `${state}x` })
    expect(larger).toMatchObject({
      status: 413,
      body: { error: { details: { actual_bytes: 1_048_577, max_bytes: 1_048_576 } } },
    })
    expect((await read(id, 'checkpoint')).body.state).toHaveLength(1_048_574)
  })

  test('DUR-007: of a job that is not active are a 409, and 404 of an unknown one', async () => {
    const waiting = (await gateway.push(freshQueue())).body.job.id
    const { id } = await startJob(gateway, freshQueue())
    expect((await put(id, 'checkpoint', { state: 1, attempt: 2 })).status).toBe(409)
    await gateway.ack(id)
    for (const each of [waiting, id]) {
      const { status, body } = await put(each, 'checkpoint', { state: 1 })
      const reason = 'invalid_state_transition'
      expect({ status, body }).toMatchObject({
        status: 409,
        body: { error: { details: { reason } } },
      })
    }
    expect((await put(v7(), 'checkpoint', { state: 1 })).status).toBe(404)
    expect((await gateway.request('DELETE', `/ojs/v1/jobs/${v7()}/checkpoint`)).status).toBe(404)
  })

  test('DUR-008: have a sequence that only grows, also when they are saved at the same time', async () => {
    const { id } = await startJob(gateway, freshQueue())
    const saved = await Promise.all(
      Array.from({ length: 20 }, (_, state) => put(id, 'checkpoint', { state })),
    )
    const sequences = saved.map(({ body }) => body.sequence).sort((a, b) => a - b)
    expect(sequences).toEqual(Array.from({ length: 20 }, (_, i) => i + 1))
  })

  test.each([[null], [{}], [[]], [0], [false], ['']])('may be any JSON: %j', async (state) => {
    const { id } = await startJob(gateway, freshQueue())
    expect((await put(id, 'checkpoint', { state })).status).toBe(200)
    expect((await read(id, 'checkpoint')).body.state).toEqual(state)
  })

  test('without state are a 400', async () => {
    const { id } = await startJob(gateway, freshQueue())
    const { status, body } = await put(id, 'checkpoint', { stat: 1 })
    expect({ status, field: body.error.details.field }).toEqual({ status: 400, field: 'state' })
  })
})

describe('by control message', () => {
  const send = async (queue: string, type: string, body: object) => {
    const connection = await amqp.connect(vhost.url)
    const channel = await connection.createConfirmChannel()
    channel.sendToQueue(`ojs.queue.control.${queue}`, Buffer.from(JSON.stringify(body)), { type })
    await channel.waitForConfirms()
    await connection.close()
  }

  test('a native worker reports progress and checkpoints; a job whose start is not reported starts', async () => {
    const queue = freshQueue()
    const { id } = (await gateway.push(queue)).body.job
    const attempt = { job_id: id, worker_id: 'n1', attempt: 1 }
    await send(queue, 'ojs.control.progress', { ...attempt, progress: 0.6, message: 'm' })
    await eventually(async () => (await read(id, 'progress')).body.progress === 0.6)
    expect((await gateway.get(id)).body.job).toMatchObject({ state: 'active', worker_id: 'n1' })
    await send(queue, 'ojs.control.checkpoint', { ...attempt, state: { at: 3 } })
    await eventually(async () => (await read(id, 'checkpoint')).body.state?.at === 3)
    // Too late, of another worker, and of another queue: nothing.
    await send(queue, 'ojs.control.progress', { ...attempt, worker_id: 'n2', progress: 0.9 })
    const other = freshQueue()
    await startJob(gateway, other)
    await send(other, 'ojs.control.checkpoint', { ...attempt, state: 'foreign' })
    await send(queue, 'ojs.control.progress', { ...attempt, progress: 0.7 })
    await eventually(async () => (await read(id, 'progress')).body.progress === 0.7)
    await send(other, 'ojs.control.progress', { ...attempt, progress: 0.8 })
    expect((await read(id, 'checkpoint')).body.state).toEqual({ at: 3 })
    expect((await read(id, 'progress')).body.progress).toBe(0.7)
  })

  test('a native worker whose lease has run out goes on with a checkpoint or progress', async () => {
    const queue = freshQueue()
    const { id } = (await gateway.push(queue, { options: { visibility_timeout_ms: 200 } })).body.job
    const attempt = { job_id: id, worker_id: 'n1', attempt: 1, generation: 0 }
    const isAgain = (state: string) =>
      eventually(async () => (await stateOf(gateway, id)) === state)
    await send(queue, 'ojs.control.progress', { ...attempt, progress: 0.1 })
    await isAgain('active')
    await isAgain('available')
    await send(queue, 'ojs.control.checkpoint', { ...attempt, state: { at: 1 } })
    await eventually(async () => (await read(id, 'checkpoint')).body.state?.at === 1)
    await isAgain('available')
    await send(queue, 'ojs.control.checkpoint', { ...attempt, generation: 1, state: { at: 2 } })
    await send(queue, 'ojs.control.progress', { ...attempt, progress: 0.3 })
    await eventually(async () => (await read(id, 'progress')).body.progress === 0.3)
    expect((await read(id, 'checkpoint')).body.state).toEqual({ at: 1 })
    expect((await gateway.get(id)).body.job.attempt).toBe(1)
  })
})

describe('results', () => {
  test('are 202 before the end, and 200 after it, whatever it was', async () => {
    const { id } = await startJob(gateway, freshQueue())
    const early = await read(id, 'result')
    expect(early).toMatchObject({ status: 202, body: { job_id: id, state: 'active' } })
    expect(early.headers.get('retry-after')).toBe('1')
    await gateway.ack(id, { result: { rows: 3 } })
    expect(await read(id, 'result')).toMatchObject({
      status: 200,
      body: {
        job_id: id,
        state: 'completed',
        result: { rows: 3 },
        completed_at: expect.any(String),
      },
    })
    const failed = await startJob(gateway, freshQueue(), { retry: { max_attempts: 1 } })
    await nack(failed.id)
    expect(await read(failed.id, 'result')).toMatchObject({
      status: 200,
      body: { state: 'discarded', error: { code: 'handler_error' } },
    })
    const cancelled = (await gateway.push(freshQueue())).body.job.id
    await gateway.cancel(cancelled)
    expect((await read(cancelled, 'result')).body).toMatchObject({ state: 'cancelled' })
    expect((await read(v7(), 'result')).status).toBe(404)
  })

  test('wake all who wait for them, at the end of the job', async () => {
    const { id } = await startJob(gateway, freshQueue())
    const waiting = Array.from({ length: 5 }, () => read(id, 'result', '?wait=true&timeout=60'))
    await gateway.ack(id, { result: 7 })
    const answers = await Promise.all(waiting)
    expect(answers.map(({ status, body }) => [status, body.result])).toEqual(
      answers.map(() => [200, 7]),
    )
  })

  test('are read for many jobs at once', async () => {
    const queue = freshQueue()
    const [done, gone, empty] = await Promise.all([
      startJob(gateway, freshQueue()),
      startJob(gateway, freshQueue(), { result_ttl: 0 }),
      startJob(gateway, freshQueue()),
    ])
    for (const { id } of [done, gone]) await gateway.ack(id, { result: { rows: [3, null] } })
    await gateway.ack(empty.id)
    const waiting = (await gateway.push(queue)).body.job
    const unknown = v7()
    const ids = [done.id, gone.id, empty.id, waiting.id, unknown, done.id]
    const { status, body } = await gateway.request('POST', '/ojs/v1/jobs/results', { ids })
    expect(status).toBe(200)
    expect(body).toEqual({
      results: {
        [done.id]: { state: 'completed', result: { rows: [3, null] } },
        [gone.id]: null,
        [empty.id]: { state: 'completed', result: null },
        [waiting.id]: { state: 'available', result: null },
        [unknown]: null,
      },
    })
  })

  test.each([
    [{}, 'ids'],
    [{ ids: [] }, 'ids'],
    [{ ids: Array(101).fill('a') }, 'ids'],
    [{ ids: ['a', 7] }, 'ids[1]'],
  ])('of many are refused for %j', async (given, field) => {
    const { status, body } = await gateway.request('POST', '/ojs/v1/jobs/results', given)
    expect([status, body.error.details.field]).toEqual([400, field])
  })

  test('of more than 32 Mi characters are refused, and none is in memory for nothing', async () => {
    const text = 'x'.repeat(1_000_000)
    const ids = await Promise.all(
      Array.from({ length: 34 }, async () => {
        const { id } = await startJob(gateway, freshQueue())
        expect((await gateway.ack(id, { result: text })).status).toBe(200)
        return id
      }),
    )
    const ask = (some: string[]) => gateway.request('POST', '/ojs/v1/jobs/results', { ids: some })
    expect((await ask(ids)).body.error).toMatchObject({
      details: { field: 'ids', reason: 'answer_too_large' },
    })
    expect((await ask(ids)).status).toBe(413)
    expect((await ask(ids.slice(1))).status).toBe(200)
  })

  test('are kept for result_ttl, and after that a 410', async () => {
    const completed = async (ttl: number) => {
      const { id } = await startJob(gateway, freshQueue(), { result_ttl: ttl })
      expect((await gateway.ack(id, { result: { rows: 3 } })).status).toBe(200)
      return id
    }
    const [none, short, hour] = [await completed(0), await completed(1), await completed(3_600)]
    const always = await completed(-1)
    expect(await read(none, 'result')).toMatchObject({
      status: 410,
      body: { error: { code: 'not_found', details: { reason: 'result_pruned' } } },
    })
    const { body } = await read(hour, 'result')
    expect(body).toMatchObject({ result: { rows: 3 }, result_expires_at: expect.any(String) })
    expect(Date.parse(body.result_expires_at) - Date.parse(body.completed_at)).toBe(3_600_000)
    // As long as the job, which may be shorter than 30 days.
    for (const id of [always, await completed(30 * 86_400)]) {
      expect((await read(id, 'result')).body).not.toHaveProperty('result_expires_at')
    }
    await eventually(async () => (await read(short, 'result')).status === 410)
    await eventually(async () => (await gateway.get(short)).body.job.result === undefined)
    expect((await gateway.get(hour)).body.job).toMatchObject({
      result_ttl: 3_600,
      result: { rows: 3 },
    })
    const wrong = await gateway.push(freshQueue(), { options: { result_ttl: -2 } })
    expect(wrong.status).toBe(400)
  })

  test('are a 408 when the wait is over', async () => {
    const id = (await gateway.push(freshQueue())).body.job.id
    expect(await read(id, 'result', '?wait=true&timeout=1')).toMatchObject({
      status: 408,
      body: {
        error: { code: 'backend_error', details: { reason: 'wait_timeout', state: 'available' } },
      },
    })
  })

  test('that are waited for are a 503 when the gateway stops', async () => {
    const id = (await gateway.push(freshQueue())).body.job.id
    const waiting = read(id, 'result', '?wait=true')
    // Answered after the one before it on the same connection has arrived: the wait has begun by then.
    await gateway.get(id)
    await gateway.restart()
    const { status, body } = await waiting
    expect([status, body.error.details.reason]).toEqual([503, 'stopping'])
  })

  test.each([
    ['?wait=yes', 'wait'],
    ['?wait=true&timeout=x', 'timeout'],
  ])('%s is a 400', async (query, field) => {
    const { status, body } = await read(v7(), 'result', query)
    expect({ status, field: body.error.details.field }).toEqual({ status: 400, field })
  })
})
