import { expect, test, vi } from 'vitest'
import { parseNativeHeartbeat } from '../../src/schemas/requests/control.ts'
import type { WorkerLogger } from '../../src/sdk/index.ts'
import {
  type AmqpOptions,
  NativeProducer,
  NativeWorker,
  type NativeWorkerOptions,
} from '../../src/worker/index.ts'
import { withDefaults } from '../../src/worker/options.ts'

const url = 'amqp://localhost'

test('withDefaults treats an option that is undefined as absent', () => {
  const nothing: AmqpOptions = {
    url,
    prefix: undefined,
    queueType: undefined,
    declare: undefined,
    topologyPath: undefined,
    timeoutMs: undefined,
    publishTimeoutMs: undefined,
    maxRetryQueues: undefined,
    retryQueueSettleMs: undefined,
    answerTimeoutMs: undefined,
    connectionName: undefined,
    logger: undefined,
    registry: undefined,
  }
  const { logger: _, ...settings } = withDefaults(nothing, 'ojs-test')
  const { logger: __, ...expected } = withDefaults({ url }, 'ojs-test')
  expect(settings).toStrictEqual(expected)
  expect(settings).toMatchObject({
    prefix: '',
    publishTimeoutMs: 10_000,
    connectionName: 'ojs-test',
  })
})

test.each([{}, { url: undefined }, { url: [] }])(
  'NativeWorker and NativeProducer throw without a url: %j',
  (options) => {
    const given = options as unknown as AmqpOptions
    for (const make of [() => new NativeWorker(given), () => new NativeProducer(given)]) {
      expect(make).toThrow(TypeError)
      expect(make).toThrow(/^url is missing/)
    }
  },
)

test.each([
  [['amqp://a/one', 'amqp://b/two'], 'url names several virtual hosts'],
  [['amqp://a', 'amqps://b'], 'url mixes amqp:// and amqps://'],
])(
  'NativeWorker and NativeProducer throw for urls that cannot be of one cluster: %j',
  (several, message) => {
    for (const make of [NativeWorker, NativeProducer]) {
      expect(() => new make({ url: several })).toThrow(message)
    }
    expect(withDefaults({ url: ['amqp://a/%2f', 'amqp://b'] }, 'ojs-test').urls).toHaveLength(2)
  },
)

test.each(['1%', '1#2', '1/2'])(
  'NativeWorker and NativeProducer throw for the password %j that is not percent-encoded',
  (password) => {
    for (const make of [NativeWorker, NativeProducer]) {
      expect(() => new make({ url: `amqp://user:${password}@host/%2Fojs` })).toThrow(
        /percent-encode/,
      )
    }
  },
)

test.each(['heartbeat=0', 'heartbeats=5', 'frameMax=1'])(
  'NativeWorker and NativeProducer throw for a url with %s',
  (query) => {
    for (const make of [NativeWorker, NativeProducer]) {
      expect(() => new make({ url: `${url}?${query}` })).toThrow(/^url: /)
    }
    expect(() => withDefaults({ url: `${url}?heartbeat=9&channelMax=5` }, 'ojs-test')).not.toThrow()
  },
)

test.each<[string, readonly unknown[]]>([
  ['timeoutMs', ['5000', Number.NaN, -1, 1.5]],
  ['publishTimeoutMs', ['10000', Number.NaN, 0, Number.POSITIVE_INFINITY, 2 ** 31]],
  ['answerTimeoutMs', ['1000', Number.NaN, 2 ** 31]],
  ['maxRetryQueues', [Number.NaN, -1]],
  ['retryQueueSettleMs', ['0', Number.NaN]],
  ['queueType', ['stream']],
  ['declare', ['eager']],
  ['delayMode', ['x']],
  ['prefix', ['Tenant', 'a.b']],
])('NativeWorker and NativeProducer throw for an invalid %s: %j', (name, values) => {
  for (const value of values) {
    const given = { url, [name]: value } as unknown as AmqpOptions
    for (const make of [() => new NativeWorker(given), () => new NativeProducer(given)]) {
      expect(make).toThrow(TypeError)
      expect(make).toThrow(`${name} must be`)
    }
  }
})

test.each(['5000', Number.NaN, 0, 2 ** 31])(
  'NativeWorker throws for a heartbeatInterval of %j',
  (value) => {
    const given = { url, heartbeatInterval: value } as NativeWorkerOptions
    expect(() => new NativeWorker(given)).toThrow('heartbeatInterval must be')
  },
)

test.each([
  ['version', ['v'.repeat(256), 2]],
  ['workerId', ['w'.repeat(256), 'a\0b', 'a\ud800', '', 7]],
])('NativeWorker throws for a %s that gateways refuse', (name, values) => {
  for (const value of values) {
    const given = { url, [name]: value } as unknown as NativeWorkerOptions
    expect(() => new NativeWorker(given)).toThrow(`${name} must be a string`)
    // A gateway refuses the same values.
    const body = { worker_id: 'w', [name === 'version' ? name : 'worker_id']: value }
    expect(() => parseNativeHeartbeat(body)).toThrow()
  }
})

test('NativeWorker treats an option that is undefined as absent', () => {
  const nothing: NativeWorkerOptions = { url, heartbeatInterval: undefined, version: undefined }
  expect(() => new NativeWorker(nothing)).not.toThrow()
})

test('the logger of withDefaults does not throw when the given one does', () => {
  const { logger } = withDefaults({ url, logger: {} as WorkerLogger }, 'ojs-test')
  expect(() => logger.warn({ connection: 'publish' }, 'no connection')).not.toThrow()
})

test.each(['Email', 'a b', '', 'dlx.email', 'ojs.queue.email', 'x'.repeat(129)])(
  'NativeWorker throws for the invalid queue name %j, as OJSWorker does',
  (name) => {
    const make = () => new NativeWorker({ url, queues: ['email', name] })
    expect(make).toThrow(TypeError)
    expect(make).toThrow(`${JSON.stringify(name)} is not a valid queue name`)
  },
)

test('NativeWorker.start resolves and logs one error while RabbitMQ cannot be reached', async () => {
  const error = vi.fn()
  const logger = { info() {}, warn() {}, error }
  // Nothing listens at this port.
  const worker = new NativeWorker({ url: 'amqp://127.0.0.1:9', logger, handleSignals: false })
  await worker.start()
  expect(worker.state).toBe('running')
  expect(error).toHaveBeenCalledExactlyOnceWith('amqp source reported an error', expect.anything())
  await worker.stop()
})
