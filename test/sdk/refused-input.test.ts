import { runInNewContext } from 'node:vm'
import { describe, expect, test } from 'vitest'
import {
  batch,
  type CallOptions,
  chain,
  type Fetch,
  group,
  HttpTransport,
  type HttpTransportOptions,
  type JobOptions,
  OJSClient,
  OJSWorker,
  runInline,
} from '../../src/sdk/index.ts'
import { amqpSource, NativeProducer, NativeWorker } from '../../src/worker/index.ts'
import { mockTransport } from './mock-transport.ts'

/** Lets a test pass what only a program without types can pass. */
function untyped<T>(value: unknown): T {
  return value as T
}

const nothing = untyped<never>(undefined)
const url = 'http://h'

/** Each kind of call with an option that it does not have, and with a time limit that is none. */
function misspeltCalls(): [string, (client: OJSClient) => Promise<unknown>, string][] {
  const definition = chain({ type: 't' })
  const calls: Record<string, (client: OJSClient, call: CallOptions) => Promise<unknown>> = {
    enqueue: (client, call) => client.enqueue('t', [], {}, call),
    enqueueBatch: (client, call) => client.enqueueBatch([{ type: 't' }], call),
    'enqueueBatch of nothing': (client, call) => client.enqueueBatch([], call),
    getJob: (client, call) => client.getJob('1', call),
    result: (client, call) => client.result('1', call),
    cancelJob: (client, call) => client.cancelJob('1', call),
    activateJob: (client, call) => client.activateJob('1', call),
    health: (client, call) => client.health(call),
    workflow: (client, call) => client.workflow(definition, call),
    'workflows.cancel': (client, call) => client.workflows.cancel('1', call),
    'cron.register': (client, call) =>
      client.cron.register({ name: 'n', cron: '@daily', type: 't' }, call),
    'cron.delete': (client, call) => client.cron.delete('n', call),
    'bulk.cancel': (client, call) => client.bulk.cancel(['1'], { confirm: true }, call),
    'jobs.list': (client, call) => client.jobs.list({}, call).next(),
    'jobs.retry': (client, call) => client.jobs.retry('1', call),
    'queues.pause': (client, call) => client.queues.pause('q', call),
    'deadLetters.list': (client, call) => client.deadLetters.list({}, call),
    'workers.quiet': (client, call) => client.workers.quiet('w', call),
  }
  const wrong: [call: CallOptions, message: string][] = [
    [untyped({ timeOut: 5 }), "'timeOut' is not an option of a call"],
    [{ timeout: Number.NaN }, 'timeout must be a number'],
  ]
  return Object.entries(calls).flatMap(([name, send]) =>
    wrong.map(([call, message]): [string, (client: OJSClient) => Promise<unknown>, string] => [
      `${name} with ${JSON.stringify(call)}`,
      (client) => send(client, call),
      message,
    ]),
  )
}

describe('arguments that the types forbid', () => {
  test.each<[string, () => unknown, string]>([
    ['no options', () => new OJSClient(nothing), 'OJSClient needs options'],
    ['no options of a transport', () => new HttpTransport(nothing), 'HttpTransport needs options'],
    ['no options of a worker', () => new OJSWorker(nothing), 'A worker needs options'],
    ['no options of NativeWorker', () => new NativeWorker(nothing), 'NativeWorker needs options'],
    ['no options of a producer', () => new NativeProducer(nothing), 'NativeProducer needs options'],
    [
      'a worker called *',
      () => new OJSWorker({ url, workerId: '*' }),
      "workerId must not be '*', which means all workers.",
    ],
    ['a url that is a number', () => new NativeWorker({ url: untyped(5) }), 'url must be amqp://'],
    ['retry: true', () => new OJSClient({ url, retry: untyped(true) }), 'retry must be an object'],
    ['retry: 5', () => new OJSClient({ url, retry: untyped(5) }), 'retry must be an object'],
    ['no callbacks', () => batch([{ type: 'a' }], nothing), 'A batch needs callbacks'],
    ['no job', () => chain(untyped(null)), 'A job must be an object'],
    [
      'a misspelt option of a client',
      () => new OJSClient(untyped({ url, timeOut: 5 })),
      "'timeOut' is not an option of OJSClient: these are url,",
    ],
    [
      'a misspelt option of a transport',
      () => new HttpTransport(untyped({ url, auht: 'x' })),
      "'auht' is not an option of HttpTransport",
    ],
    [
      'a misspelt option of a worker',
      () => new OJSWorker(untyped({ url, concurency: 5 })),
      "'concurency' is not an option of OJSWorker",
    ],
    [
      'an option of OJSWorker that NativeWorker does not have',
      () => new NativeWorker(untyped({ url: 'amqp://h', pollInterval: 5 })),
      "'pollInterval' is not an option of NativeWorker",
    ],
    [
      'an option of NativeWorker that a producer does not have',
      () => new NativeProducer(untyped({ url: 'amqp://h', version: '1' })),
      "'version' is not an option of NativeProducer",
    ],
    [
      'a misspelt option of a source',
      () => amqpSource(untyped({ url: 'amqp://h', queues: ['a'] })),
      "'queues' is not an option of amqpSource",
    ],
    [
      'a misspelt member of retry',
      () => new OJSClient({ url, retry: untyped({ maxAttempt: 5 }) }),
      "'maxAttempt' is not an option of 'retry'",
    ],
    [
      'a first delay without end',
      () => new OJSClient({ url, retry: { initialDelay: Number.POSITIVE_INFINITY } }),
      'retry.initialDelay must be a number of at least 0.',
    ],
    [
      'a number of tries that is a text',
      () => new OJSClient({ url, retry: { maxAttempts: untyped('5') } }),
      'retry.maxAttempts must be a number of at least 0, or Infinity for no limit.',
    ],
    [
      'a number of tries that is null',
      () => new OJSClient({ url, retry: { maxAttempts: untyped(null) } }),
      'retry.maxAttempts must be',
    ],
    [
      'a longest delay that is no number',
      () => new OJSClient({ url, retry: { maxDelay: Number.NaN } }),
      'retry.maxDelay must be',
    ],
  ])('throw a TypeError with a clear message: %s', (_what, make, message) => {
    expect(make).toThrow(TypeError)
    expect(make).toThrow(message)
  })

  test.each<[string, (client: OJSClient) => Promise<unknown>, string]>([
    ['null as options', (client) => client.enqueue('t', [], untyped(null)), 'options of a job'],
    [
      'undefined as a job of a batch',
      (client) => client.enqueueBatch([nothing]),
      'A job must be an object',
    ],
    [
      'a text as signal',
      (client) => client.getJob('1', signal('x')),
      'signal must be an AbortSignal',
    ],
    [
      'a text as signal of a batch',
      (client) => client.enqueueBatch([], signal('x')),
      'signal must be an AbortSignal',
    ],
    [
      'null as signal',
      (client) => client.getJob('1', signal(null)),
      'signal must be an AbortSignal',
    ],
    [
      'a misspelt option of a job',
      (client) => client.enqueue('t', [], untyped({ qeue: 'x' })),
      "'qeue' is not an option",
    ],
    [
      'a misspelt option of a chain',
      (client) =>
        client.workflow({ ...chain({ type: 't' }), options: untyped<JobOptions>({ qeue: 'x' }) }),
      "'qeue' is not an option",
    ],
    ...misspeltCalls(),
    [
      'a misspelt option of a list',
      (client) => client.queues.list(untyped({ limt: 5 })),
      "'limt' is not an option of a list: these are limit, offset.",
    ],
    [
      'a filter of another list',
      (client) => client.cron.list(untyped({ state: 'running' })),
      "'state' is not an option of a list",
    ],
    [
      'a limit that is no number',
      (client) => client.workflows.list({ limit: Number.NaN }),
      "'limit' is NaN",
    ],
    [
      'an offset without end',
      (client) => client.jobs.page({ offset: Number.POSITIVE_INFINITY }),
      "'offset' is Infinity",
    ],
    [
      'a priority that is no number',
      (client) => client.jobs.page({ priority: Number.NaN }),
      "The filter 'priority' is NaN",
    ],
    [
      'a limit of an action that is no number',
      (client) => client.bulk.retry({}, { confirm: true, limit: Number.NaN }),
      "'limit' is NaN",
    ],
    [
      'a misspelt option of a wait',
      (client) => client.result('1', untyped({ timeoutMS: 5 })),
      "'timeoutMS' is not an option of a call: these are signal, timeout, headers, timeoutMs.",
    ],
    ...[Number.NaN, -1, untyped<number>('5'), untyped<number>(null)].map(
      (timeoutMs): [string, (client: OJSClient) => Promise<unknown>, string] => [
        `a wait of ${JSON.stringify(timeoutMs)}`,
        (client) => client.result('1', { timeoutMs }),
        'timeoutMs must be a number of milliseconds',
      ],
    ),
    [
      'a misspelt member of a schema',
      (client) => client.schemas.register(untyped({ uri: 'u', typ: 'a' })),
      "'typ' is not an option of a schema",
    ],
    ['no cron job', (client) => client.cron.register(nothing), 'A cron job must be an object'],
    [
      'a misspelt member of a cron job',
      (client) => client.cron.register(untyped({ name: 'n', cron: '@daily', type: 't', tz: 'x' })),
      "'tz' is not a member of a job",
    ],
    [
      'a misspelt member of a workflow',
      (client) => client.workflow(untyped({ name: 'n', steps: [], option: {} })),
      "'option' is not an option of a workflow",
    ],
    [
      'a misspelt member of a chain in a group',
      (client) =>
        client.workflow(group({ ...chain({ type: 't' }), ...untyped<object>({ job: 1 }) })),
      "'job' is not an option of a workflow",
    ],
    [
      'a misspelt callback',
      async () =>
        batch([{ type: 'a' }], untyped({ onComplete: { type: 'b' }, onDone: { type: 'c' } })),
      "'onDone' is not an option of 'callbacks'",
    ],
  ])('reject with a TypeError before anything is sent: %s', async (_what, call, message) => {
    const transport = mockTransport([])
    const error = await call(new OJSClient({ transport })).catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(TypeError)
    expect(String(error)).toContain(message)
    expect(transport.requests).toEqual([])
  })
})

function signal(value: unknown): CallOptions {
  return { signal: untyped(value) }
}

test.each(['concurrency', 'pollInterval', 'heartbeatInterval', 'gracePeriod', 'visibilityTimeout'])(
  'a worker refuses every %s that is not finite',
  (name) => {
    for (const value of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, '5', null])
      expect(() => new OJSWorker(untyped({ url, [name]: value ?? Number.NaN }))).toThrow(
        `${name} must be a whole number`,
      )
  },
)

test('Infinity means no limit where the client says so', () => {
  const none = Number.POSITIVE_INFINITY
  const retry = { maxAttempts: none, maxDelay: none, maxRetryAfter: none }
  expect(() => new OJSClient({ url, timeout: none, retry })).not.toThrow()
})

describe('what JSON would change without a word', () => {
  class Opaque {
    readonly #secret = 1
    get secret() {
      return this.#secret
    }
  }
  const cases: [args: unknown, message: string][] = [
    [[Number.NaN], "'args[0]' is NaN, which JSON would turn into null."],
    [{ ratio: Number.POSITIVE_INFINITY }, "'args[0].ratio' is Infinity"],
    [[1, undefined], "'args[1]' is undefined, which JSON would turn into null."],
    [new Array(2), "'args[0]' is undefined"],
    [[new Map([[1, 2]])], "'args[0]' is a Map, of which JSON would keep nothing"],
    [{ to: [{ all: new Set([1]) }] }, "'args[0].to[0].all' is a Set"],
    [[Promise.resolve(1)], "'args[0]' is a Promise"],
    [[Object.assign(new Error('no'), { code: 1 })], "'args[0]' is an Error"],
    [[/x/], "'args[0]' is a RegExp"],
    [[new Uint8Array(2)], "'args[0]' is a Uint8Array"],
    [[new ArrayBuffer(2)], "'args[0]' is an ArrayBuffer"],
    [[new URLSearchParams('a=1')], "'args[0]' is a URLSearchParams"],
    [[new Opaque()], "'args[0]' is an Opaque"],
    [[() => 1], "'args[0]' is a function, which JSON does not have."],
    [{ call() {} }, "'args[0].call' is a function"],
    [[Symbol('s')], "'args[0]' is a symbol"],
    [[new Date(Number.NaN)], "'args[0]' is an invalid date"],
    [[{ toJSON() {} }], "'args[0]' is an object whose toJSON() returns no JSON value"],
    [[{ toJSON: () => ({ a: Number.NaN }) }], "'args[0].a' is NaN"],
  ]

  test.each(cases)('is refused before anything is sent: %o', async (args, message) => {
    const transport = mockTransport([])
    const enqueued = new OJSClient({ transport }).enqueue('t', args)
    await expect(enqueued).rejects.toThrow(TypeError)
    await expect(enqueued).rejects.toThrow(message)
    expect(transport.requests).toEqual([])
  })

  test('is refused wherever a job is given, and in its options', async () => {
    const client = new OJSClient({ transport: mockTransport([]) })
    const job = { type: 't', args: [Number.NaN] }
    const calls: [call: Promise<unknown>, message: string][] = [
      [client.enqueueBatch([{ type: 't' }, job]), "'jobs[1].args[0]' is NaN"],
      [client.workflow(chain({ type: 't' }, job)), "'steps[1].args[0]' is NaN"],
      [client.cron.register({ name: 'n', cron: '@daily', ...job }), "'args[0]' is NaN"],
      [client.enqueue('t', [], { timeoutMs: Number.POSITIVE_INFINITY }), "timeout_ms' is Infinity"],
      [client.enqueue('t', [], { priority: Number.NaN }), "'options.priority' is NaN"],
      [client.enqueue('t', [], { meta: { at: new Map() } }), "'meta.at' is a Map"],
      [
        client.enqueue('t', [], { retry: { maxAttempts: Number.NaN } }),
        "retry.max_attempts' is NaN",
      ],
    ]
    for (const [call, message] of calls) await expect(call).rejects.toThrow(message)
  })

  test('is not refused where a middleware makes JSON of it', async () => {
    const transport = mockTransport([{ status: 201, body: { job: { id: '1' } } }])
    const client = new OJSClient({ transport })
    client.use((request, next) => {
      request.args = request.args.map((arg) => (arg instanceof Map ? [...arg] : arg))
      return next()
    })
    await client.enqueue('t', [new Map([[1, 2]])])
    expect(transport.requests[0]?.body).toMatchObject({ args: [[[1, 2]]] })
  })
})

test('args keep what JSON can say: dates as texts, buffers, other realms, what occurs twice', async () => {
  const transport = mockTransport([{ status: 201, body: { job: { id: '1' } } }])
  const shared = { a: 1 }
  const args = [
    { gone: undefined, none: null, at: new Date(0), zero: -0 },
    Buffer.from('x'),
    Object.create(null),
    runInNewContext('({ nested: {} })'),
    new Number(5),
    shared,
    [shared, []],
  ]
  await new OJSClient({ transport }).enqueue('t', args)
  const { body } = transport.requests[0] ?? {}
  expect(JSON.parse(JSON.stringify(body)).args).toEqual([
    { none: null, at: '1970-01-01T00:00:00.000Z', zero: 0 },
    { type: 'Buffer', data: [120] },
    {},
    { nested: {} },
    5,
    { a: 1 },
    [{ a: 1 }, []],
  ])
})

test('args with a cycle are a TypeError', async () => {
  const parent: { children: object[] } = { children: [] }
  for (let i = 0; i < 3; i++) parent.children.push({ parent, siblings: parent.children })
  const enqueued = new OJSClient({ url }).enqueue('t', parent)
  await expect(enqueued).rejects.toThrow(TypeError)
})

test('a timeout of 0 means no time limit', async () => {
  const fetch: Fetch = () =>
    new Promise((resolve) => {
      const answer = { status: 200, headers: new Headers(), text: async () => '{"job":{"id":"1"}}' }
      setTimeout(() => resolve(answer), 20)
    })
  const options: HttpTransportOptions = { url, fetch, retry: false }
  expect(await new OJSClient({ ...options, timeout: 0 }).getJob('1')).toEqual({ id: '1' })
  expect(await new OJSClient(options).getJob('1', { timeout: 0 })).toEqual({ id: '1' })
})

test('a handler that returns an object whose toJSON gives undefined fails the job', async () => {
  const outcome = await runInline({ odd: () => ({ toJSON() {} }) }, { type: 'odd' })
  expect(outcome).toMatchObject({
    error: {
      message:
        'The result of the handler is not JSON: an object whose toJSON() returns no JSON value',
    },
  })
})
