import { describe, expect, test } from 'vitest'
import {
  batch,
  type ChainDefinition,
  chain,
  group,
  OJSClient,
  type WorkflowDefinition,
} from '../../../src/sdk/index.ts'
import { mockTransport } from '../mock-transport.ts'

describe('chain(), group() and batch()', () => {
  test('chain() keeps its steps in order and wraps object args into an array', () => {
    expect(chain({ type: 'a', args: { url: '…' } }, { type: 'b', args: [1, 2] })).toEqual({
      type: 'chain',
      steps: [
        { type: 'a', args: [{ url: '…' }] },
        { type: 'b', args: [1, 2] },
      ],
    })
  })

  test('group() lists its jobs', () => {
    expect(group({ type: 'a', args: { id: 1 } }, { type: 'b' })).toEqual({
      type: 'group',
      jobs: [
        { type: 'a', args: [{ id: 1 }] },
        { type: 'b', args: [] },
      ],
    })
  })

  test('batch() takes callbacks in camelCase and snake_case', () => {
    expect(
      batch([{ type: 'a', args: 1 }], {
        on_complete: { type: 'done', args: { n: 1 } },
        onFailure: { type: 'alert' },
      }),
    ).toEqual({
      type: 'batch',
      jobs: [{ type: 'a', args: [1] }],
      callbacks: {
        on_complete: { type: 'done', args: [{ n: 1 }] },
        on_failure: { type: 'alert', args: [] },
      },
    })
  })

  test('convert the options of a step to wire form', () => {
    expect(chain({ type: 'a', options: { timeoutMs: 5, meta: { aB: 1 } } }).steps).toEqual([
      { type: 'a', args: [], meta: { aB: 1 }, options: { timeout_ms: 5 } },
    ])
  })

  test('can be nested', () => {
    const inner = group({ type: 'b' }, chain({ type: 'c' }))
    expect(chain({ type: 'a' }, inner)).toEqual({
      type: 'chain',
      steps: [
        { type: 'a', args: [] },
        {
          type: 'group',
          jobs: [
            { type: 'b', args: [] },
            { type: 'chain', steps: [{ type: 'c', args: [] }] },
          ],
        },
      ],
    })
  })

  test('take a job whose type is named chain as a job', () => {
    expect(group({ type: 'chain', args: 1 }).jobs).toEqual([{ type: 'chain', args: [1] }])
  })

  test('do not change their arguments', () => {
    const step = Object.freeze({ type: 'a', args: Object.freeze({ x: 1 }) })
    const jobs = Object.freeze([step])
    chain(step)
    group(step)
    batch(jobs, Object.freeze({ on_complete: step }))
    expect(step).toEqual({ type: 'a', args: { x: 1 } })
  })

  test('throw without a job, or without a callback of a batch', () => {
    expect(() => chain()).toThrow(/chain\(\) needs at least one job/)
    expect(() => group()).toThrow(/group\(\) needs at least one job/)
    expect(() => batch([], { on_complete: { type: 'a' } })).toThrow(TypeError)
    expect(() => batch([{ type: 'a' }], {})).toThrow(/callback/)
  })

  test('throw for a callback in both spellings, because only one of the two would run', () => {
    const callbacks = { on_success: { type: 'a' }, onSuccess: { type: 'b' } }
    expect(() => batch([{ type: 'x' }], callbacks)).toThrow(
      /'on_success' is given in two spellings/,
    )
  })
})

describe('client.workflow', () => {
  const running = { id: 'w1', state: 'running', steps: [] }
  const id = expect.stringMatching(/^[0-9a-f-]{36}$/)
  const accepting = () => mockTransport(() => ({ status: 201, body: { workflow: running } }))

  test('posts the definition with an id of its own, so that it can be repeated', async () => {
    const transport = accepting()
    const definition = { ...chain({ type: 'a', args: { x: 1 } }), name: 'nightly' }
    expect(await new OJSClient({ transport }).workflow(definition)).toEqual(running)
    expect(transport.only).toEqual({
      method: 'POST',
      path: '/workflows',
      idempotent: true,
      body: { id, type: 'chain', name: 'nightly', steps: [{ type: 'a', args: [{ x: 1 }] }] },
    })
  })

  test('gives the workflow that an earlier try has stored, and rejects for another one', async () => {
    const taken = (resource_id: unknown) => ({
      status: 409,
      body: {
        error: { code: 'duplicate', message: 'm', retryable: false, details: { resource_id } },
      },
    })
    const stored = { ...running, type: 'chain', name: 'nightly' }
    const transport = mockTransport(({ method, body }) =>
      method === 'GET'
        ? { status: 200, body: { workflow: stored } }
        : taken((body as { id: string }).id),
    )
    const client = new OJSClient({ transport })
    const definition = { ...chain({ type: 'a' }), name: 'nightly' }
    expect(await client.workflow(definition)).toEqual(stored)
    const own = '019539a4-b68c-7def-8000-1a2b3c4d5e6f'
    expect(await client.workflow({ ...definition, id: own })).toEqual(stored)
    expect(transport.requests.at(-1)).toMatchObject({ path: `/workflows/${own}` })
    const other = { ...definition, name: 'other' }
    await expect(client.workflow(other)).rejects.toMatchObject({ code: 'duplicate' })
  })

  test('sends no id of its own beside an Idempotency-Key', async () => {
    const transport = accepting()
    const headers = { 'idempotency-key': 'k' }
    await new OJSClient({ transport }).workflow(chain({ type: 'a' }), { headers })
    expect(transport.only).toMatchObject({ idempotent: true, headers })
    expect(transport.only.body).not.toHaveProperty('id')
  })

  test('sends a graph in the form of seed 001', async () => {
    const transport = accepting()
    await new OJSClient({ transport }).workflow({
      name: 'onboarding',
      steps: [
        { id: 'a', type: 't', args: { x: 1 } },
        { id: 'b', type: 't', args: [], depends_on: ['a'], options: { timeoutMs: 5 } },
        { id: 'c', type: 't', meta: { m: 1 }, dependsOn: ['b'] },
      ],
      options: { queue: 'email', visibilityTimeoutMs: 7 },
    })
    expect(transport.only.body).toEqual({
      id,
      name: 'onboarding',
      steps: [
        { id: 'a', type: 't', args: [{ x: 1 }], depends_on: [] },
        { id: 'b', type: 't', args: [], depends_on: ['a'], options: { timeout_ms: 5 } },
        { id: 'c', type: 't', args: [], meta: { m: 1 }, depends_on: ['b'] },
      ],
      options: { queue: 'email', visibility_timeout_ms: 7 },
    })
  })

  test('converts a hand-written definition and all its options to wire form', async () => {
    const transport = accepting()
    const client = new OJSClient({ transport })
    await client.workflow({
      ...chain({ type: 'a.b' }),
      options: { queue: 'q', timeoutMs: 5_000, retry: { maxAttempts: 2 } },
    })
    await client.workflow({
      type: 'chain',
      steps: [
        { type: 'a', args: 1, options: { timeoutMs: 6, unique: { argsKeys: ['x'] } } },
        {
          type: 'batch',
          jobs: [{ type: 'b', options: { delayUntil: new Date(0) } }],
          callbacks: { onSuccess: { type: 'c', options: { expiresAt: 'P1D' } } },
          options: { visibilityTimeoutMs: 7 },
        },
      ],
    })
    expect(transport.requests.map(({ body }) => body)).toEqual([
      {
        id,
        type: 'chain',
        steps: [{ type: 'a.b', args: [] }],
        options: { queue: 'q', timeout_ms: 5_000, retry: { max_attempts: 2 } },
      },
      {
        id,
        type: 'chain',
        steps: [
          { type: 'a', args: [1], options: { timeout_ms: 6, unique: { args_keys: ['x'] } } },
          {
            type: 'batch',
            jobs: [{ type: 'b', args: [], options: { delay_until: '1970-01-01T00:00:00.000Z' } }],
            callbacks: { on_success: { type: 'c', args: [], options: { expires_at: 'P1D' } } },
            options: { visibility_timeout_ms: 7 },
          },
        ],
      },
    ])
  })

  test.each([null, undefined])('treats members that are %s as absent', async (none) => {
    const transport = accepting()
    const group = { type: 'group', args: none, steps: none, jobs: [{ type: 'a', args: 1 }] }
    const job = { type: 'b', args: [], steps: undefined, jobs: undefined }
    // Programs with one type for all workflows set the members of the other kinds to null or undefined.
    const definition = { type: 'chain', jobs: none, callbacks: none, steps: [group, job] }
    await new OJSClient({ transport }).workflow(definition as unknown as ChainDefinition)
    const wire = { ...group, jobs: [{ type: 'a', args: [1] }] }
    expect(transport.only.body).toEqual({
      id,
      ...definition,
      steps: [wire, { type: 'b', args: [] }],
    })
  })

  test('says that jobs belongs into options if a job has jobs beside its args', () => {
    const job = { type: 'a', args: [], jobs: [{ type: 'b' }] }
    expect(() => chain(job)).toThrow("'jobs' is not a member of a job")
  })

  test('accepts a graph with the explicit type dag', async () => {
    const transport = accepting()
    const graph = { type: 'dag', name: 'w', steps: [{ id: 'a', type: 't', dependsOn: [] }] }
    await new OJSClient({ transport }).workflow(graph)
    expect(transport.only.body).toEqual({
      id,
      type: 'dag',
      name: 'w',
      steps: [{ id: 'a', type: 't', args: [], depends_on: [] }],
    })
  })

  test('refuses a step with both depends_on and dependsOn, or with a queue beside options', async () => {
    const transport = accepting()
    const { workflows } = new OJSClient({ transport })
    const step = { id: 'b', type: 't', depends_on: ['a'], dependsOn: ['a'] }
    const twice = workflows.create({ name: 'w', steps: [step] })
    await expect(twice).rejects.toThrow(/'depends_on' is given in two spellings/)
    const misplaced = { id: 'b', type: 't', queue: 'q' }
    await expect(workflows.create({ name: 'w', steps: [misplaced] })).rejects.toThrow(TypeError)
    expect(() => chain(misplaced)).toThrow("'queue' is not a member of a job")
    expect(transport.requests).toEqual([])
  })

  test.each([
    [{ name: 'w' }, "'steps' of a workflow must be an array"],
    [{ name: 'w', steps: { type: 't' } }, "'steps' of a workflow must be an array"],
    [{ name: 'w', steps: [null] }, 'A step must be an object'],
    [{ type: 'group', jobs: 'a' }, "'jobs' of a workflow must be an array"],
    [
      { type: 'chain', steps: [{ type: 'group', jobs: {} }] },
      "'jobs' of a workflow must be an array",
    ],
  ])('names the mistake in the untyped definition %j', async (definition, message) => {
    const { workflows } = new OJSClient({ transport: accepting() })
    const created = workflows.create(definition as unknown as WorkflowDefinition)
    await expect(created).rejects.toThrow(message)
  })

  test.each(['id', 'schema'])(
    'refuses %s in the options of a workflow, because it belongs to a single job',
    async (name) => {
      const transport = accepting()
      const client = new OJSClient({ transport })
      const options = { queue: 'q', [name]: 'urn:x' }
      const job = { type: 't', args: [] }
      const graph = { name: 'w', steps: [{ id: 'a', ...job }], options }
      for (const definition of [
        graph,
        { ...chain(job), options },
        chain({ ...group(job), options }),
      ]) {
        await expect(client.workflow(definition)).rejects.toThrow(
          `'${name}' is not an option of a workflow`,
        )
      }
      expect(transport.requests).toEqual([])
    },
  )

  test('workflows.get and workflows.cancel send GET and DELETE with the encoded id', async () => {
    const transport = accepting()
    const { workflows } = new OJSClient({ transport })
    expect(await workflows.get('w/1')).toEqual(running)
    expect(await workflows.cancel('w1')).toEqual(running)
    expect(transport.requests).toEqual([
      { method: 'GET', path: '/workflows/w%2F1' },
      { method: 'DELETE', path: '/workflows/w1' },
    ])
  })
})
