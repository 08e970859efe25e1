import { expect, test } from 'vitest'
import { type AmqpOptions, NativeProducer, NativeWorker } from '../../src/worker/index.ts'
import { withDefaults } from '../../src/worker/options.ts'

const url = 'amqp://localhost'

test('an option that is undefined is absent', () => {
  const nothing: AmqpOptions = {
    url,
    prefix: undefined,
    queueType: undefined,
    declare: undefined,
    topologyPath: undefined,
    timeoutMs: undefined,
    publishTimeoutMs: undefined,
    maxRungs: undefined,
    rungSettleMs: undefined,
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

test.each([{}, { url: undefined }, { url: [] }])('%j: the url is missing', (options) => {
  const given = options as unknown as AmqpOptions
  for (const make of [() => new NativeWorker(given), () => new NativeProducer(given)]) {
    expect(make).toThrow(TypeError)
    expect(make).toThrow(/^url is missing/)
  }
})

test.each(['Email', 'a b', '', 'dlx.email', 'ojs.queue.email', 'x'.repeat(129)])(
  'a worker of the queue %j is refused, as over HTTP',
  (name) => {
    const make = () => new NativeWorker({ url, queues: ['email', name] })
    expect(make).toThrow(TypeError)
    expect(make).toThrow(`${JSON.stringify(name)} is no queue`)
  },
)
