import { beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../support/gateway/in-process.ts'
import { AheadClock } from '../../support/time/ahead-clock.ts'
import { fetchMany, fetchOne, freshQueue, gatewayForAll, nack, untilState } from '../harness.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers are read as a client would, member by member
type Json = any

const HOUR_MS = 3_600_000

const clock = new AheadClock()

const { gateway } = gatewayForAll({}, { clock })
let queue = ''
beforeEach(() => {
  queue = freshQueue()
})

const PATH = '/ojs/v1/workflows'
const job = (type: string, over: object = {}) => ({ type, args: [], ...over })
const get = async (id: string): Promise<Json> =>
  (await gateway.request('GET', `${PATH}/${id}`)).body.workflow

/** Creates a workflow, with all of its jobs in this test's queue. */
async function created(body: object): Promise<Json> {
  const answer = await gateway.request('POST', PATH, { options: { queue }, ...body })
  expect(answer.status, JSON.stringify(answer.body)).toBe(201)
  expect(answer.headers.get('location')).toBe(`${PATH}/${answer.body.workflow.id}`)
  return answer.body.workflow
}

/** FETCHes the next job, which must be of this type, and completes it. */
async function complete(type: string, result?: unknown): Promise<Json> {
  const next = await fetchOne(gateway, queue)
  expect(next.type).toBe(type)
  expect((await gateway.ack(next.id, { result })).status).toBe(200)
  return next
}

async function fail(type: string): Promise<Json> {
  const next = await fetchOne(gateway, queue)
  expect(next.type).toBe(type)
  expect((await nack(gateway, next.id, { retryable: false })).status).toBe(200)
  return next
}

const states = (steps: Json[]) => steps.map(({ state }) => state)

describe('a workflow of steps', () => {
  const steps = [
    { id: 'send-welcome', ...job('email.send'), depends_on: [] },
    { id: 'create-profile', ...job('user.create_profile') },
    { id: 'confirm', ...job('email.send'), depends_on: ['send-welcome', 'create-profile'] },
  ]

  it('is answered as seed 001 §14.1 shows it', async () => {
    const workflow = await created({ name: 'onboarding', steps })
    expect(workflow).toMatchObject({
      name: 'onboarding',
      state: 'running',
      type: 'dag',
      steps_total: 3,
      steps_completed: 0,
      steps: [
        { id: 'send-welcome', type: 'email.send', state: 'available', depends_on: [] },
        { id: 'create-profile', type: 'user.create_profile', state: 'available', depends_on: [] },
        { id: 'confirm', state: 'pending', job_id: null },
      ],
    })
    expect(workflow.id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7/)
    expect(workflow.steps[2].depends_on).toEqual(['send-welcome', 'create-profile'])
    expect((await gateway.get(workflow.steps[0].job_id)).body.job.workflow_id).toBe(workflow.id)
  })

  it('starts a step with the results of its dependencies once all of them have completed', async () => {
    const { id } = await created({ name: 'onboarding', steps })
    const first = await complete('email.send', { message_id: 'm1' })
    expect(first).toMatchObject({ workflow_id: id, workflow_step: 'send-welcome' })
    expect(first.parent_results).toEqual({})
    expect((await fetchOne(gateway, queue)).workflow_step).toBe('create-profile')
    expect(await gateway.fetch([queue], { count: 9 })).toEqual([])
    const running = await get(id)
    expect(running.steps[0]).toMatchObject({ state: 'completed', result: { message_id: 'm1' } })
    expect(running.steps[1]).toMatchObject({ state: 'active' })
    expect(running.steps[2]).toMatchObject({ state: 'pending', job_id: null })
    await gateway.ack(running.steps[1].job_id, { result: 7 })
    const last = await complete('email.send')
    expect(last.parent_results).toEqual({
      'send-welcome': { message_id: 'm1' },
      'create-profile': 7,
    })
    const done = await get(id)
    expect(done).toMatchObject({ state: 'completed', steps_completed: 3, jobs_completed: 3 })
    expect(done.metadata).toMatchObject({ job_count: 3, completed_count: 3, failed_count: 0 })
    expect(done.completed_at >= done.started_at).toBe(true)
  })

  it('cancels the steps that depend on a failed one, and lets the others run', async () => {
    const { id } = await created({
      name: 'fails',
      steps: [
        { id: 'a', ...job('a') },
        { id: 'b', ...job('b') },
        { id: 'c', ...job('c'), depends_on: ['a'] },
        { id: 'd', ...job('d'), depends_on: ['c'] },
        { id: 'e', ...job('e'), depends_on: ['b'] },
      ],
    })
    const failed = await fail('a')
    expect(await get(id)).toMatchObject({ state: 'running', steps_completed: 0 })
    await complete('b')
    await complete('e')
    const workflow = await get(id)
    expect(workflow).toMatchObject({
      state: 'failed',
      failed_step_id: 'a',
      failed_step_index: 0,
      failed_job_ids: [failed.id],
      errors: [{ job_id: failed.id, code: 'handler_error', message: 'it broke', attempt: 1 }],
    })
    expect(states(workflow.steps)).toEqual([
      ...['discarded', 'completed', 'cancelled', 'cancelled', 'completed'],
    ])
    expect(workflow.steps[2]).toMatchObject({ job_id: null })
  })

  it('overrides its options with those of a step', async () => {
    const other = freshQueue()
    const { steps: made } = await created({
      name: 'options',
      options: { queue, priority: 5, timeout_ms: 1_000, retry: { max_attempts: 7 } },
      steps: [
        { id: 'a', ...job('a') },
        { id: 'b', ...job('b', { options: { queue: other, timeout: 9, retry: null } }) },
      ],
    })
    const [a, b] = await Promise.all(made.map((step: Json) => gateway.get(step.job_id)))
    expect(a.body.job).toMatchObject({ queue, priority: 5, timeout_ms: 1_000, max_attempts: 7 })
    expect(b.body.job).toMatchObject({ queue: other, timeout_ms: 9_000, max_attempts: 7 })
  })

  it('uses the retry policy of a step, by either name and at either level', async () => {
    const { steps: made } = await created({
      name: 'policies',
      options: { queue, retry: { max_attempts: 2 } },
      steps: [
        { id: 'a', ...job('a', { retry_policy: { max_attempts: 7 } }) },
        { id: 'b', ...job('b', { options: { retry_policy: { max_attempts: 8 } } }) },
        { id: 'c', ...job('c') },
      ],
    })
    const jobs = await Promise.all(made.map((step: Json) => gateway.get(step.job_id)))
    expect(jobs.map(({ body }) => body.job.max_attempts)).toEqual([7, 8, 2])
  })

  it('keeps the error of a failed step when its dead letter is retried or deleted', async () => {
    const { id } = await created({
      name: 'why',
      steps: [
        { id: 'a', ...job('a') },
        { id: 'b', ...job('b') },
      ],
    })
    const failed = [await fail('a'), await fail('b')]
    const why = async () => {
      const { errors, steps } = await get(id)
      const told = errors.map(({ code, message }: Json) => [code, message])
      return [told, steps.map(({ error }: Json) => error)]
    }
    const before = await why()
    expect(before[0]).toEqual([
      ['handler_error', 'it broke'],
      ['handler_error', 'it broke'],
    ])
    const [retried, removed] = failed.map((one) => `/ojs/v1/dead-letter/${one.id}`)
    expect((await gateway.request('POST', `${retried}/retry`)).status).toBe(200)
    expect((await gateway.request('DELETE', `${removed}`)).status).toBe(200)
    expect(await why()).toEqual(before)
  })

  it.each([
    ['expired', '+PT0.02S', false],
    ['expired after a failure', '+PT1H', true],
  ])('fails with the error expired when its step has %s', async (_, expires_at, fails) => {
    const retry = { initial_interval: 'PT2H', max_interval: 'PT2H', max_attempts: 3 }
    const options = { expires_at, retry }
    const step = job('a', { options })
    const { id } = await created({ name: 'late', steps: [{ id: 'a', ...step }] })
    if (fails) {
      const { id: jobId } = await fetchOne(gateway, queue)
      await nack(gateway, jobId, { code: 'smtp', message: 'm' })
      clock.aheadMs += HOUR_MS
    }
    await eventually(async () => (await get(id)).state === 'failed')
    const { errors, steps } = await get(id)
    const message = 'The job expired (expires_at) before it could run.'
    expect(errors).toMatchObject([{ code: 'expired', message }])
    expect(steps).toMatchObject([{ state: 'discarded', error: { code: 'expired' } }])
  })

  it('counts the delay of a step from its start', async () => {
    const { id } = await created({
      name: 'later',
      steps: [
        { id: 'a', ...job('a') },
        { id: 'b', ...job('b', { options: { delay_until: '+PT1H' } }), depends_on: ['a'] },
      ],
    })
    const before = clock.wall()
    await complete('a')
    const [, step] = (await get(id)).steps
    expect(step.state).toBe('scheduled')
    const { body } = await gateway.get(step.job_id)
    expect(Date.parse(body.job.scheduled_at)).toBeGreaterThanOrEqual(before + HOUR_MS)
  })
})

describe('a chain', () => {
  it('runs in order, and each step sees the results of the steps before it', async () => {
    const { id, type, steps } = await created({
      type: 'chain',
      steps: [job('one'), job('two'), job('three')],
    })
    expect([type, steps.map((step: Json) => step.id)]).toEqual(['chain', ['0', '1', '2']])
    expect((await complete('one', { x: 1 })).parent_results).toEqual([])
    expect((await complete('two')).parent_results).toEqual([{ x: 1 }])
    expect((await complete('three', 3)).parent_results).toEqual([{ x: 1 }, null])
    expect(await get(id)).toMatchObject({ state: 'completed', steps_completed: 3 })
  })

  it('stops at a failure', async () => {
    const { id } = await created({ type: 'chain', steps: [job('one'), job('two'), job('three')] })
    await complete('one')
    await fail('two')
    const workflow = await get(id)
    expect(workflow).toMatchObject({ state: 'failed', steps_completed: 1, steps_total: 3 })
    expect(states(workflow.steps)).toEqual(['completed', 'discarded', 'cancelled'])
    expect(await gateway.fetch([queue], { wait_ms: 200 })).toEqual([])
  })

  it('does not fail when an attempt fails that is retried', async () => {
    const retry = { max_attempts: 2, initial_interval_ms: 1, jitter: false }
    const { id } = await created({ type: 'chain', steps: [job('one', { retry }), job('two')] })
    const { id: jobId } = await fetchOne(gateway, queue)
    await nack(gateway, jobId)
    expect(await get(id)).toMatchObject({ state: 'running' })
    await complete('one')
    await complete('two')
    expect(await get(id)).toMatchObject({ state: 'completed' })
  })

  it('may contain a group', async () => {
    const group = { type: 'group', jobs: [job('left'), job('right')] }
    const { id, steps } = await created({
      type: 'chain',
      steps: [job('first'), group, job('last')],
    })
    expect(steps.map((step: Json) => [step.id, step.depends_on])).toEqual([
      ['0', []],
      ['1.0', ['0']],
      ['1.1', ['0']],
      ['2', ['1.0', '1.1']],
    ])
    await complete('first', 'f')
    expect((await complete('left', 'l')).parent_results).toEqual(['f'])
    expect((await complete('right', 'r')).parent_results).toEqual(['f'])
    expect((await complete('last')).parent_results).toEqual(['f', ['l', 'r']])
    expect(await get(id)).toMatchObject({ state: 'completed', steps_total: 4 })
  })
})

describe('a group', () => {
  it('fails once all of its jobs have ended and one has failed', async () => {
    const { id } = await created({ type: 'group', jobs: [job('a'), job('b'), job('c')] })
    await complete('a')
    await fail('b')
    expect(await get(id)).toMatchObject({ state: 'running', jobs_completed: 1 })
    await complete('c')
    expect(await get(id)).toMatchObject({ state: 'failed', jobs_total: 3, jobs_completed: 2 })
  })

  it('counts a job that was cancelled separately as failed', async () => {
    const { id, steps } = await created({ type: 'group', jobs: [job('a'), job('b')] })
    await gateway.cancel(steps[0].job_id)
    await complete('b')
    const workflow = await get(id)
    expect(workflow).toMatchObject({ state: 'failed', failed_step_id: '0' })
    expect(states(workflow.steps)).toEqual(['cancelled', 'completed'])
  })
})

it('its progress has what each of many steps has reported, and data up to a megabyte', async () => {
  const jobs = Array.from({ length: 110 }, (_, i) => job(`t${i}`))
  const { id, steps } = await created({ type: 'group', jobs })
  await fetchMany(gateway, queue, jobs.length)
  const report = async (at: number, body: object) => {
    const path = `/ojs/v1/jobs/${steps[at].job_id}/progress`
    expect((await gateway.request('PUT', path, { progress: 0.5, ...body })).status).toBe(200)
  }
  // Sixteen of them have room.
  const large = { text: 'x'.repeat(65_000) }
  await Promise.all(Array.from({ length: 17 }, (_, at) => report(at, { data: large })))
  await report(109, { data: { page: 1 } })
  const { body } = await gateway.request('GET', `${PATH}/${id}/progress`)
  expect(body).toMatchObject({ workflow_id: id, type: 'group' })
  expect(body.progress).toBeCloseTo((18 * 0.5) / 110)
  const reported = body.steps.filter(({ progress }: Json) => progress === 0.5)
  expect(reported).toHaveLength(18)
  const told = reported.map(({ data }: Json) => data)
  expect(told.filter((data: Json) => data?.text === large.text)).toHaveLength(16)
  expect(told.filter((data: Json) => data === undefined)).toHaveLength(1)
  expect(body.steps[109]).toMatchObject({ state: 'active', data: { page: 1 } })
  expect((await gateway.request('GET', `${PATH}/unknown/progress`)).status).toBe(404)
})

describe('a batch', () => {
  const callbacks = {
    on_complete: job('complete'),
    on_success: job('success'),
    on_failure: job('failure'),
  }

  it('starts on_complete and on_success after the last job, with all results', async () => {
    const { id } = await created({ type: 'batch', jobs: [job('a'), job('b')], callbacks })
    await complete('a', 1)
    await complete('b', 2)
    expect(await get(id)).toMatchObject({ state: 'running', jobs_completed: 2, jobs_total: 2 })
    expect((await complete('complete')).parent_results).toEqual([1, 2])
    await complete('success')
    const workflow = await get(id)
    expect(workflow.state).toBe('completed')
    expect(workflow.callbacks.map((step: Json) => [step.id, step.state])).toEqual([
      ['on_complete', 'completed'],
      ['on_success', 'completed'],
      ['on_failure', 'cancelled'],
    ])
  })

  it('starts on_failure when a job has failed, and completes with it', async () => {
    const { id } = await created({ type: 'batch', jobs: [job('a'), job('b')], callbacks })
    await fail('a')
    await complete('b', 2)
    await complete('complete')
    expect((await complete('failure')).parent_results).toEqual([null, 2])
    expect(await get(id)).toMatchObject({ state: 'completed', metadata: { failed_count: 1 } })
  })

  it('fails when its callback fails', async () => {
    const only = { on_success: callbacks.on_success }
    const { id } = await created({ type: 'batch', jobs: [job('a')], callbacks: only })
    await complete('a')
    await fail('success')
    expect(await get(id)).toMatchObject({ state: 'failed', failed_step_id: 'on_success' })
  })
})

describe('cancelling a workflow', () => {
  it('cancels all jobs that have not ended, active ones too', async () => {
    const { id, steps } = await created({
      name: 'to be cancelled',
      steps: [
        { id: 'a', ...job('a') },
        { id: 'b', ...job('b') },
        { id: 'c', ...job('c'), depends_on: ['a', 'b'] },
      ],
    })
    await complete('a')
    const active = await fetchOne(gateway, queue)
    const answer = await gateway.request('DELETE', `${PATH}/${id}`)
    expect(answer.body.workflow).toEqual({
      id,
      name: 'to be cancelled',
      state: 'cancelled',
      cancelled_at: expect.stringMatching(/Z$/),
      steps_cancelled: 2,
      steps_already_completed: 1,
    })
    expect((await gateway.ack(active.id)).status).toBe(409)
    const workflow = await get(id)
    expect(workflow).toMatchObject({ state: 'cancelled', steps_completed: 1 })
    expect(states(workflow.steps)).toEqual(['completed', 'cancelled', 'cancelled'])
    expect(workflow.cancelled_at).toBe(answer.body.workflow.cancelled_at)
    // Like its job, the step has `cancelled_at` and no `completed_at`.
    const cancelledAt = (await untilState(gateway, steps[1].job_id, 'cancelled')).cancelled_at
    expect(workflow.steps[1]).toMatchObject({ id: 'b', cancelled_at: cancelledAt })
    expect(workflow.steps[1]).not.toHaveProperty('completed_at')
    const again = await gateway.request('DELETE', `${PATH}/${id}`)
    expect(again.status).toBe(409)
    expect(again.body.error).toMatchObject({
      code: 'invalid_request',
      details: { workflow_id: id, current_state: 'cancelled' },
    })
  })

  it('starts no callbacks', async () => {
    const callbacks = { on_complete: job('complete'), on_failure: job('failure') }
    const { id } = await created({ type: 'batch', jobs: [job('a'), job('b')], callbacks })
    const { body } = await gateway.request('DELETE', `${PATH}/${id}`)
    expect(body.workflow).toMatchObject({ steps_cancelled: 2, steps_already_completed: 0 })
    expect(await gateway.fetch([queue], { wait_ms: 200 })).toEqual([])
  })

  it.each(['GET', 'DELETE'])('%s of an unknown workflow answers 404', async (method) => {
    const { status, body } = await gateway.request(method, `${PATH}/nobody`)
    expect(status).toBe(404)
    expect(body.error.details).toEqual({ resource_type: 'workflow', resource_id: 'nobody' })
  })
})

describe('while a queue is paused', () => {
  it('new workflows are refused, and started ones continue when it is resumed', async () => {
    const steps = [job('one'), job('two')]
    const { id } = await created({ type: 'chain', steps })
    const first = await fetchOne(gateway, queue)
    await gateway.request('POST', `/ojs/v1/queues/${queue}/pause`)
    await gateway.ack(first.id)
    expect((await get(id)).steps[1]).toMatchObject({ type: 'two', state: 'available' })
    const refused = await gateway.request('POST', PATH, {
      type: 'chain',
      steps,
      options: { queue },
    })
    expect([refused.status, refused.body.error.code]).toEqual([422, 'queue_paused'])
    await gateway.request('POST', `/ojs/v1/queues/${queue}/resume`)
    await complete('two')
    expect(await get(id)).toMatchObject({ state: 'completed' })
  })
})

describe('args of a step', () => {
  it('are validated against its schema before anything is stored', async () => {
    const uri = `urn:ojs:schema:${queue}:v1`
    const schema = {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'array',
      prefixItems: [{ type: 'integer' }],
    }
    const registered = { uri, type: 'one', version: 1, schema }
    expect((await gateway.request('POST', '/ojs/v1/schemas', registered)).status).toBe(201)
    const steps = [job('one'), job('one', { args: ['x'], schema: uri })]
    const body = { type: 'chain', steps, options: { queue } }
    const answer = await gateway.request('POST', PATH, body)
    expect(answer.status).toBe(400)
    expect(answer.body.error).toMatchObject({
      code: 'schema_validation',
      details: { step: '1', field: 'steps[1].args' },
    })
    expect(await gateway.fetch([queue])).toEqual([])
  })
})

describe('the list of workflows', () => {
  it('is filtered by state, newest first', async () => {
    const before = (await gateway.request('GET', `${PATH}?state=completed`)).body.pagination.total
    const ids: string[] = []
    for (let i = 0; i < 2; i++) {
      ids.push((await created({ type: 'chain', name: `n${i}`, steps: [job('only')] })).id)
      await complete('only')
    }
    const { body } = await gateway.request('GET', `${PATH}?state=completed&limit=2`)
    expect(body.workflows.map((one: Json) => [one.id, one.state, one.steps_completed])).toEqual([
      [ids[1], 'completed', 1],
      [ids[0], 'completed', 1],
    ])
    expect(body.workflows[0]).not.toHaveProperty('steps')
    expect(body.pagination).toMatchObject({ total: before + 2, limit: 2, offset: 0 })
    const next = await gateway.request('GET', `${PATH}?limit=1&offset=1`)
    expect(next.body.workflows[0].id).toBe(ids[0])
    expect((await gateway.request('GET', `${PATH}?state=over`)).status).toBe(400)
  })
})

describe('the events of a workflow', () => {
  const eventsOf = async (id: string): Promise<Json[]> => {
    const { body } = await gateway.request('GET', '/ojs/v1/events?limit=1000')
    return body.events.filter((event: Json) => event.subject === id)
  }

  it('are workflow.started, workflow.step_completed and workflow.failed, in order', async () => {
    const { id } = await created({ type: 'chain', name: 'told', steps: [job('one'), job('two')] })
    await complete('one')
    await fail('two')
    await eventually(async () => (await eventsOf(id)).length === 3)
    const [started, step, failed] = await eventsOf(id)
    expect(started).toMatchObject({
      type: 'workflow.started',
      data: { workflow_id: id, workflow_name: 'told', total_steps: 2 },
    })
    expect(step).toMatchObject({
      type: 'workflow.step_completed',
      data: { step_id: '0', step_type: 'one', steps_remaining: 1 },
    })
    expect(failed).toMatchObject({
      type: 'workflow.failed',
      data: { failed_step_id: '1', failed_step_type: 'two', error: { code: 'handler_error' } },
    })
  })

  it('end with workflow.cancelled when it is cancelled, and no other end', async () => {
    const { id } = await created({ type: 'group', name: 'dropped', jobs: [job('a'), job('b')] })
    await gateway.request('DELETE', `${PATH}/${id}`)
    await eventually(async () => (await eventsOf(id)).length === 2)
    expect(await eventsOf(id)).toMatchObject([
      { type: 'workflow.started' },
      { type: 'workflow.cancelled', data: { workflow_id: id, workflow_name: 'dropped' } },
    ])
  })
})

describe('a workflow is refused and stores nothing with', () => {
  const a = { id: 'a', ...job('a') }
  const dag = (...steps: object[]) => ({ name: 'bad', steps })
  const nested = (depth: number): object =>
    depth === 0 ? job('a') : { type: 'group', jobs: [nested(depth - 1)] }

  it.each<[string, object, string, object?]>([
    ['no name', { steps: [a] }, 'name'],
    ['a name with a NUL', { ...dag(a), name: 'b\0d' }, 'name'],
    ['an id with a NUL', dag({ ...a, id: 'a\0b' }), 'steps[0].id'],
    ['an id with half a pair', dag({ ...a, id: '\ud83d' }), 'steps[0].id'],
    ['no steps', { name: 'bad' }, 'steps'],
    ['empty steps', dag(), 'steps'],
    ['no id', dag(job('a')), 'steps[0].id'],
    ['an id twice', dag(a, a), 'steps[1].id', { step: 'a', validation: 'duplicate' }],
    [
      'an unknown dependency',
      dag({ ...a, depends_on: ['z'] }),
      'steps[0].depends_on',
      { step: 'a' },
    ],
    ['a step that waits for itself', dag({ ...a, depends_on: ['a'] }), 'steps[0].depends_on'],
    [
      'a cycle',
      dag(
        a,
        { id: 'b', ...job('b'), depends_on: ['c'] },
        { id: 'c', ...job('c'), depends_on: ['b'] },
      ),
      'steps',
      { validation: 'cycle', cycle: ['b', 'c', 'b'] },
    ],
    ['a bad type', dag({ ...a, type: 'not a type' }), 'steps[0].type', { step: 'a' }],
    ['args that are no list', dag({ ...a, args: {} }), 'steps[0].args', { step: 'a' }],
    ['a bad option', { ...dag(a), options: { queue: 'Not A Queue' } }, 'options.queue'],
    ['an empty chain', { type: 'chain', steps: [] }, 'steps'],
    ['no jobs', { type: 'group' }, 'jobs'],
    ['no callbacks', { type: 'batch', jobs: [job('a')] }, 'callbacks'],
    [
      'a bad callback',
      { type: 'batch', jobs: [job('a')], callbacks: { on_success: { type: 'a' } } },
      'callbacks.on_success.args',
      { step: 'on_success' },
    ],
    ['groups nested too deep', nested(4), 'jobs[0].jobs[0].jobs[0]', { max_depth: 3 }],
    ['an unknown kind', { type: 'star', jobs: [job('a')] }, 'type'],
    [
      'more than 1,000 jobs',
      { type: 'group', jobs: Array.from({ length: 1_001 }, () => job('a')) },
      'jobs',
    ],
  ])('%s', async (_, body, field, details = {}) => {
    const total = (await gateway.request('GET', PATH)).body.pagination.total
    const answer = await gateway.request('POST', PATH, { options: { queue }, ...body })
    expect(answer.status, JSON.stringify(answer.body)).toBe(400)
    expect(answer.body.error).toMatchObject({
      code: 'invalid_request',
      details: { field, ...details },
    })
    expect((await gateway.request('GET', PATH)).body.pagination.total).toBe(total)
    expect(await gateway.fetch([queue])).toEqual([])
  })

  it('the type saga', async () => {
    const { status, body } = await gateway.request('POST', PATH, {
      type: 'saga',
      steps: [job('a')],
    })
    expect([status, body.error.code]).toEqual([422, 'unsupported'])
  })
})
