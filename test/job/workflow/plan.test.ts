import { describe, expect, it } from 'vitest'
import { planWorkflow } from '../../../src/job/workflow/plan.ts'
import {
  decideNode,
  type GraphStep,
  type Plan,
  type PlannedJob,
} from '../../../src/job/workflow/workflow.ts'

const job = (over: object = {}) => ({ type: 't', args: [], ...over })
const plan = (request: object): Plan =>
  planWorkflow({ ...request }, (all) => (all.steps ?? []) as GraphStep[])
const graph = (...steps: object[]): Plan => plan({ name: 'n', steps })
const jobsOf = ({ nodes }: Plan): PlannedJob[] => nodes.filter((node) => node.kind === 'job')
const byId = (found: Plan, id: string): PlannedJob => {
  const one = jobsOf(found).find((node) => node.id === id)
  if (!one) throw new Error(`no step ${id}`)
  return one
}

describe('the type of a workflow', () => {
  const refused = (type: unknown) => () => plan({ type, jobs: [job()] })
  const details = (given: object) =>
    expect.objectContaining({ details: { field: 'type', ...given } })

  it.each([undefined, null, 'dag'])('is dag when the request says %s', (type) => {
    const [first, ...more] = plan({ type, name: 'n', steps: [job({ id: 'a' })] }).nodes
    expect(plan({ type, name: 'n', steps: [job({ id: 'a' })] }).type).toBe('dag')
    expect(first).toMatchObject({ id: 'a', inputs: { steps: [] }, isCallback: false })
    expect(more).toEqual([{ kind: 'join', needs: [0], rule: 'all' }])
  })

  it.each<[unknown, object]>([
    ['star', { received: 'star' }],
    ['s'.repeat(101), { received: 's'.repeat(100) }],
    [7, {}],
    [['chain'], {}],
  ])('is refused with the accepted types: %j', (type, received) => {
    const expected = ['chain', 'group', 'batch']
    expect(refused(type)).toThrow(details({ expected, ...received }))
    expect(refused(type)).toThrow("'type' field must be chain, group or batch")
  })

  it('is refused by name when it is not supported', () => {
    expect(refused('saga')).toThrow(details({ received: 'saga' }))
    expect(refused('saga')).toThrow("'saga'")
  })
})

describe('the plan of a graph', () => {
  it('has a request for each step, with the options of the workflow', () => {
    const steps = [job({ id: 'a', options: { priority: 2 } }), job({ id: 'b' })]
    const found = plan({ name: 'n', options: { queue: 'q', priority: 1 }, steps })
    expect(jobsOf(found).map(({ request }) => request)).toEqual([
      job({ options: { queue: 'q', priority: 2 } }),
      job({ options: { queue: 'q', priority: 1 } }),
    ])
  })

  it('keeps the order of the steps, and finds all ancestors of each', () => {
    const found = graph(
      job({ id: 'c', depends_on: ['b'] }),
      job({ id: 'a' }),
      job({ id: 'b', depends_on: ['a', 'a'] }),
    )
    expect(jobsOf(found)).toMatchObject([
      { id: 'c', needs: [2], inputs: { steps: [1, 2] }, dependsOn: ['b'], path: 'steps[0]' },
      { id: 'a', needs: [], inputs: { steps: [] }, dependsOn: [] },
      { id: 'b', needs: [1], inputs: { steps: [1] }, dependsOn: ['a'] },
    ])
    expect(found.nodes.at(-1)).toEqual({ kind: 'join', needs: [0, 1, 2], rule: 'all' })
  })

  it('is refused with the steps of a cycle in their order, without steps that only depend on it', () => {
    const cyclic = () =>
      graph(
        job({ id: 'behind', depends_on: ['x'] }),
        job({ id: 'x', depends_on: ['z', 'free'] }),
        job({ id: 'y', depends_on: ['x'] }),
        job({ id: 'z', depends_on: ['y'] }),
        job({ id: 'free' }),
      )
    expect(cyclic).toThrow('The steps depend on each other in a circle: x → y → z → x.')
  })

  it('is refused with at most twenty steps of a cycle', () => {
    const ids = Array.from({ length: 30 }, (_, i) => `s${i}`)
    const around = ids.map((id, i) => job({ id, depends_on: [ids.at(i - 1)] }))
    const cycle = expect.objectContaining({ length: 21, 20: '…' })
    expect(() => graph(...around)).toThrow(
      expect.objectContaining({ details: expect.objectContaining({ cycle }) }),
    )
  })

  it.each<[string, object[], object]>([
    [
      'two steps with one id',
      [job({ id: 'a' }), job({ id: 'a' })],
      { field: 'steps[1].id', step: 'a' },
    ],
    [
      'an unknown dependency',
      [job({ id: 'a', depends_on: ['b'] })],
      { field: 'steps[0].depends_on', validation: 'unknown_dependency' },
    ],
    [
      'a step that depends on itself',
      [job({ id: 'a', depends_on: ['a'] })],
      { validation: 'cycle', step: 'a' },
    ],
  ])('is refused: %s', (_, steps, details) => {
    expect(() => graph(...steps)).toThrow(
      expect.objectContaining({ details: expect.objectContaining(details) }),
    )
  })

  it('accepts ids that JavaScript gives a meaning', () => {
    const found = graph(job({ id: '__proto__' }), job({ id: 'b', depends_on: ['__proto__'] }))
    expect(byId(found, 'b').needs).toEqual([0])
  })
})

describe('the plan of a tree', () => {
  it('connects the elements of a chain, with ids by their position', () => {
    const found = plan({
      type: 'chain',
      steps: [job(), { type: 'group', jobs: [job(), job({ id: 'own' })] }, job()],
    })
    expect(
      jobsOf(found).map(({ id, needs, inputs, dependsOn }) => [id, needs, inputs, dependsOn]),
    ).toEqual([
      ['0', [], [], []],
      ['1.0', [0], [0], ['0']],
      ['1.own', [0], [0], ['0']],
      ['2', [3], [0, [1, 2]], ['1.0', '1.own']],
    ])
    expect(found.nodes[3]).toEqual({ kind: 'join', needs: [1, 2], rule: 'all' })
    expect(found.nodes.at(-1)).toEqual({ kind: 'join', needs: [0, 3, 4], rule: 'all' })
  })

  it.each<[string[], object]>([
    [['on_complete'], { needs: [3], rule: 'fired' }],
    [['on_success', 'on_failure'], { needs: [3, 4], rule: 'fired' }],
    [['on_success'], { needs: [2, 3], rule: 'all' }],
    [['on_failure'], { needs: [2, 3], rule: 'rescued' }],
  ])('ends a batch with the callbacks %j', (names, end) => {
    const callbacks = Object.fromEntries(names.map((name) => [name, job()]))
    const found = plan({ type: 'batch', jobs: [job(), job()], callbacks })
    expect(found.nodes.at(-1)).toEqual({ kind: 'join', ...end })
    for (const name of names) {
      expect(byId(found, name)).toMatchObject({
        isCallback: true,
        needs: [2],
        inputs: [0, 1],
        path: `callbacks.${name}`,
      })
    }
  })

  it('continues after a batch with the results of its jobs', () => {
    const callbacks = { on_success: job(), on_complete: job(), on_failure: job() }
    const found = plan({
      type: 'chain',
      steps: [{ jobs: [job(), job()], callbacks, type: 'batch' }, job()],
    })
    expect(byId(found, '1')).toMatchObject({
      needs: [6],
      inputs: [[0, 1]],
      dependsOn: ['0.0', '0.1'],
    })
    const rules = Object.keys(callbacks).map((name) => byId(found, `0.${name}`).rule)
    expect(rules).toEqual(['completed', 'over', 'failed'])
  })

  it('has at most three levels and a thousand jobs', () => {
    const nested = (depth: number): object =>
      depth === 0 ? job() : { type: 'group', jobs: [nested(depth - 1)] }
    expect(jobsOf(plan(nested(3))).map(({ id }) => id)).toEqual(['0.0.0'])
    expect(() => plan(nested(4))).toThrow('nested 3 deep')
    const many = (count: number) => Array.from({ length: count }, () => job())
    const split = (count: number) => ({
      type: 'group',
      jobs: [
        { type: 'group', jobs: many(500) },
        { type: 'group', jobs: many(count) },
      ],
    })
    expect(jobsOf(plan(split(500)))).toHaveLength(1_000)
    expect(() => plan(split(501))).toThrow('1000 steps at most')
    const details = { field: 'jobs', validation: 'maxItems', max_items: 1_000 }
    expect(() => plan({ type: 'group', jobs: many(1_001) })).toThrow(
      expect.objectContaining({ status: 400, details }),
    )
    expect(jobsOf(plan({ type: 'group', jobs: many(1_000) }))).toHaveLength(1_000)
  })

  it('accepts ids of any other characters, up to 255', () => {
    const ids = ['\u{1f600}'.repeat(255), 'ü\n']
    const found = plan({ type: 'group', jobs: ids.map((id) => job({ id })) })
    expect(jobsOf(found).map(({ id }) => id)).toEqual(ids)
  })

  it('distinguishes a job of the type chain from a chain', () => {
    const [only] = jobsOf(plan({ type: 'group', jobs: [job({ type: 'chain', jobs: 1 })] }))
    expect(only?.request).toMatchObject({ type: 'chain', args: [], jobs: 1 })
  })

  it.each<[string, object, string]>([
    [
      'an unknown type of a nested workflow',
      { type: 'chain', steps: [{ type: 'x', jobs: [job()] }] },
      'steps[0].type',
    ],
    ['a nested graph', { type: 'chain', steps: [{ steps: [job()] }] }, 'steps[0].type'],
    ['an element that is not an object', { type: 'group', jobs: [7] }, 'jobs[0]'],
    ['a list that is not an array', { type: 'group', jobs: {} }, 'jobs'],
    ['an id that is not a string', { type: 'group', jobs: [job({ id: 7 })] }, 'jobs[0].id'],
    ['an id with a NUL', { type: 'group', jobs: [job({ id: 'a\0b' })] }, 'jobs[0].id'],
    ['an id with a lone surrogate', { type: 'group', jobs: [job({ id: '\ud83d' })] }, 'jobs[0].id'],
    [
      'an own id that is the position of another job',
      { type: 'group', jobs: [job({ id: '1' }), job()] },
      'jobs[1].id',
    ],
    [
      'an unknown callback',
      { type: 'batch', jobs: [job()], callbacks: { on_x: job() } },
      'callbacks.on_x',
    ],
    [
      'a callback with the name of a method of every object',
      { type: 'batch', jobs: [job()], callbacks: { on_success: job(), toString: job() } },
      'callbacks.toString',
    ],
    [
      'a callback that is not a job',
      { type: 'batch', jobs: [job()], callbacks: { on_success: 1 } },
      'callbacks.on_success',
    ],
    [
      'callbacks of a chain',
      { type: 'chain', steps: [job()], callbacks: { on_success: job() } },
      'callbacks',
    ],
    [
      'callbacks of a nested group',
      {
        type: 'chain',
        steps: [{ type: 'group', jobs: [job()], callbacks: { on_failure: job() } }],
      },
      'steps[0].callbacks',
    ],
    [
      'a dependency in a chain on another element than the previous one',
      { type: 'chain', steps: [job(), job(), job({ depends_on: ['0'] })] },
      'steps[2].depends_on',
    ],
    [
      'a second dependency in a chain',
      { type: 'chain', steps: [job(), job(), job({ depends_on: ['1', '0'] })] },
      'steps[2].depends_on',
    ],
    [
      'a dependency in a chain that is not a string',
      { type: 'chain', steps: [job(), job({ depends_on: [0] })] },
      'steps[1].depends_on',
    ],
    [
      'a dependency of the first element of a chain',
      { type: 'chain', steps: [job({ depends_on: ['1'] }), job()] },
      'steps[0].depends_on',
    ],
    [
      'a dependency in a group',
      { type: 'group', jobs: [job(), job({ depends_on: ['0'] })] },
      'jobs[1].depends_on',
    ],
    [
      'a dependency that is not an array',
      { type: 'group', jobs: [job({ depends_on: 'a' })] },
      'jobs[0].depends_on',
    ],
    [
      'a dependency of a nested workflow',
      { type: 'chain', steps: [{ type: 'group', jobs: [job()], depends_on: ['a'] }] },
      'steps[0].depends_on',
    ],
    [
      'a dependency inside a nested workflow',
      { type: 'chain', steps: [{ type: 'group', jobs: [job({ depends_on: ['a'] })] }] },
      'steps[0].jobs[0].depends_on',
    ],
    [
      'a dependency of a callback',
      { type: 'batch', jobs: [job()], callbacks: { on_success: job({ depends_on: ['0'] }) } },
      'callbacks.on_success.depends_on',
    ],
    ['two lists in one workflow', { type: 'batch', steps: [job()], jobs: [job()] }, 'jobs'],
    [
      'callbacks of a graph',
      { name: 'n', steps: [job({ id: 'a' })], callbacks: { on_x: 1 } },
      'callbacks',
    ],
    ['a second list in a graph', { name: 'n', steps: [job({ id: 'a' })], jobs: [job()] }, 'jobs'],
    [
      'options that are not an object',
      { type: 'group', jobs: [{ type: 'group', jobs: [job()], options: 1 }] },
      'jobs[0].options',
    ],
  ])('is refused: %s', (_, request, field) => {
    expect(() => plan(request)).toThrow(
      expect.objectContaining({ status: 400, details: expect.objectContaining({ field }) }),
    )
  })

  it.each([null, []])('accepts empty dependencies: %j', (none) => {
    const group = { type: 'group', jobs: [job({ depends_on: none })], depends_on: none }
    const callbacks = { on_success: job({ depends_on: none }) }
    const found = plan({ type: 'batch', jobs: [group], callbacks })
    expect(jobsOf(found).map(({ request }) => request)).toEqual([job(), job()])
  })

  it('accepts a dependency in a chain on the previous element', () => {
    const steps = [
      job({ id: 'a', depends_on: [] }),
      job({ id: 'b', depends_on: ['a', 'a'] }),
      {
        id: 'in',
        type: 'chain',
        depends_on: ['b'],
        steps: [job({ id: 'c' }), job({ id: 'd', depends_on: ['c'] })],
      },
      { type: 'group', depends_on: ['in'], jobs: [job(), job()] },
      job({ depends_on: ['3'] }),
    ]
    const found = jobsOf(plan({ type: 'chain', steps }))
    expect(found.map(({ id, dependsOn }) => [id, dependsOn])).toEqual([
      ['a', []],
      ['b', ['a']],
      ['in.c', ['b']],
      ['in.d', ['in.c']],
      ['3.0', ['in.c', 'in.d']],
      ['3.1', ['in.c', 'in.d']],
      ['4', ['3.0', '3.1']],
    ])
    for (const { request } of found) expect(request).toEqual(job())
  })

  it('distinguishes jobs from workflows by their members, of which null ones are absent', () => {
    const group = { type: 'group', args: null, steps: null, jobs: [job()] }
    const single = job({ steps: null, jobs: null })
    expect(jobsOf(plan({ type: 'chain', steps: [group, single] })).map(({ id }) => id)).toEqual([
      '0.0',
      '1',
    ])
    const { args: _, ...bare } = single
    expect(jobsOf(plan({ type: 'chain', steps: [bare] }))).toHaveLength(1)
  })

  it.each(['saga', 'steps[0].type'])('is refused for a saga: %s', (field) => {
    const request =
      field === 'saga'
        ? { type: 'saga', steps: [job()] }
        : { type: 'chain', steps: [{ type: 'saga', steps: [job()] }] }
    expect(() => plan(request)).toThrow(expect.objectContaining({ status: 422 }))
  })
})

describe('options of a step', () => {
  const optionsOf = (defaults: object, own: object, level: object = {}) => {
    const steps = [{ type: 'group', jobs: [job(own)], options: level }]
    return jobsOf(plan({ type: 'chain', steps, options: defaults }))[0]?.request
  }

  it.each<[string, object, object, object]>([
    ['are inherited', { queue: 'q' }, {}, { options: { queue: 'q' } }],
    ['do not contain the members that name the step', {}, { id: 'own', depends_on: [] }, {}],
    [
      'override those of the workflow',
      { queue: 'q' },
      { options: { queue: 'o' } },
      { options: { queue: 'o' } },
    ],
    ["are overridden by the step's top level", { queue: 'q' }, { queue: 'o' }, { queue: 'o' }],
    [
      'are not overridden by null',
      { queue: 'q' },
      { options: { queue: null } },
      { options: { queue: 'q' } },
    ],
    [
      "are overridden by the step's top level beside a null",
      { queue: 'q' },
      { queue: 'o', options: { queue: null } },
      { queue: 'o', options: { queue: null } },
    ],
    ['are overridden by another spelling', { timeout_ms: 1 }, { timeout: 9 }, { timeout: 9 }],
    [
      'are overridden as a whole',
      { retry: { max_attempts: 3, jitter: true } },
      { options: { retry_policy: { max_attempts: 1 } } },
      { options: { retry_policy: { max_attempts: 1 } } },
    ],
    [
      'are overridden by another spelling of the time',
      { delay_until: '+PT1H' },
      { options: { scheduled_at: '+PT1S' } },
      { options: { scheduled_at: '+PT1S' } },
    ],
    [
      'are overridden by another spelling of the lease',
      { visibility_timeout_ms: 1 },
      { options: { visibility_timeout: 9 } },
      { options: { visibility_timeout: 9 } },
    ],
    [
      'are overridden by another spelling of meta',
      { meta: { a: 1 } },
      { options: { metadata: { a: 2 } } },
      { options: { metadata: { a: 2 } } },
    ],
    ['may be unknown', { x: 1 }, { options: { y: 2 } }, { options: { x: 1, y: 2 } }],
  ])('%s', (_, defaults, own, expected) => {
    expect(optionsOf(defaults, own)).toEqual({ ...job(), ...expected })
  })

  it("override the outer workflow's in the order of nesting", () => {
    const outer = { queue: 'outer', priority: 1, timeout: 5 }
    expect(optionsOf(outer, { priority: 3 }, { queue: 'inner', timeout_ms: 7 })).toEqual({
      ...job({ priority: 3 }),
      options: { queue: 'inner', timeout_ms: 7 },
    })
  })
})

describe('the decision about a node', () => {
  const none = { pending: 0, completed: 0, failed: 0, cancelled: 0 }

  it.each<[Parameters<typeof decideNode>[0], object, ReturnType<typeof decideNode>]>([
    ['completed', { pending: 1, completed: 1 }, 'wait'],
    ['completed', { pending: 1, failed: 1 }, 'cancelled'],
    ['completed', { pending: 1, cancelled: 1 }, 'cancelled'],
    ['completed', { completed: 2 }, 'start'],
    ['over', { pending: 1, failed: 1 }, 'wait'],
    ['over', { failed: 1 }, 'start'],
    ['over', { completed: 1 }, 'start'],
    ['over', { cancelled: 1 }, 'cancelled'],
    ['failed', { failed: 1 }, 'start'],
    ['failed', { completed: 1 }, 'cancelled'],
    ['all', { pending: 1, failed: 1 }, 'wait'],
    ['all', { completed: 1, failed: 1, cancelled: 1 }, 'failed'],
    ['all', { completed: 1, cancelled: 1 }, 'cancelled'],
    ['all', { completed: 2 }, 'completed'],
    ['fired', { completed: 1, cancelled: 1 }, 'completed'],
    ['fired', { completed: 1, failed: 1 }, 'failed'],
    ['fired', { cancelled: 2 }, 'cancelled'],
    ['rescued', { completed: 1, failed: 1 }, 'completed'],
    ['rescued', { completed: 1, cancelled: 1 }, 'completed'],
    ['rescued', { failed: 2 }, 'failed'],
    ['rescued', { cancelled: 2 }, 'cancelled'],
  ])('by the rule %s with %o is %s', (rule, arrivals, expected) => {
    expect(decideNode(rule, { ...none, ...arrivals })).toBe(expected)
  })
})

describe('the size that steps repeat of the request', () => {
  const tooMuch = expect.objectContaining({ status: 413, code: 'invalid_request' })
  const jobs = (count: number) => Array.from({ length: count }, () => job())
  const large = { note: 'n'.repeat(1_000_000) }
  const inner = { type: 'group', jobs: jobs(1) }

  it.each<[string, object]>([
    ['options in each step of a graph', dagOf(50, large)],
    ['options in each job', { type: 'group', options: large, jobs: jobs(50) }],
    [
      'options in each nested workflow',
      { type: 'group', options: large, jobs: Array.from({ length: 50 }, () => inner) },
    ],
    [
      'members, which cost more than their text',
      { type: 'group', options: many(), jobs: jobs(100) },
    ],
    [
      'members within members',
      { type: 'group', options: { meta: { deep: [many()] } }, jobs: jobs(100) },
    ],
    [
      'bytes, not characters',
      { type: 'group', options: { note: '一'.repeat(400_000) }, jobs: jobs(30) },
    ],
    ['ids of a group in each job of the next', { type: 'chain', steps: [named(500), named(500)] }],
  ])('is bounded: %s', (_, request) => {
    expect(() => plan(request)).toThrow(tooMuch)
  })

  it('is checked at each step, and the error has the limit', () => {
    const details = { field: 'steps[33]', max_bytes: 32 * 1024 * 1024 }
    expect(() => plan(dagOf(50, large))).toThrow(expect.objectContaining({ details }))
    expect(() => plan(dagOf(50, large))).toThrow('each step repeats')
  })

  it('is limited far above what a workflow needs', () => {
    const steps = [named(500, 20), named(500, 20)]
    const options = { meta: { note: 'n'.repeat(5_000) } }
    expect(jobsOf(plan({ type: 'chain', options, steps }))).toHaveLength(1_000)
  })

  function named(count: number, length = 255): object {
    const ids = Array.from({ length: count }, (_, i) => `${i}-`.padEnd(length, 'x'))
    return { type: 'group', jobs: ids.map((id) => job({ id })) }
  }

  function many(): object {
    return Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`m${i}`, 1]))
  }

  function dagOf(count: number, options: object): object {
    const steps = Array.from({ length: count }, (_, i) => job({ id: `s${i}` }))
    return { name: 'n', options, steps }
  }
})
