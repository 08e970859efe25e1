import { describe, expect, test } from 'vitest'
import {
  batch,
  type CallOptions,
  chain,
  type Fetch,
  HttpTransport,
  type HttpTransportOptions,
  type JobOptions,
  OJSClient,
  OJSWorker,
  runInline,
} from '../../src/sdk/index.ts'
import { NativeProducer, NativeWorker } from '../../src/worker/index.ts'
import { mockTransport } from './mock-transport.ts'

/** Lets a test pass what only a program without types can pass. */
function untyped<T>(value: unknown): T {
  return value as T
}

const nothing = untyped<never>(undefined)
const url = 'http://h'

describe('arguments that the types forbid', () => {
  test.each<[string, () => unknown, string]>([
    ['no options', () => new OJSClient(nothing), 'OJSClient needs options'],
    ['no options of a transport', () => new HttpTransport(nothing), 'HttpTransport needs options'],
    ['no options of a worker', () => new OJSWorker(nothing), 'A worker needs options'],
    ['no options of NativeWorker', () => new NativeWorker(nothing), 'NativeWorker needs options'],
    [
      'no options of a producer',
      () => new NativeProducer(nothing),
      'The options must be an object',
    ],
    ['a url that is a number', () => new NativeWorker({ url: untyped(5) }), 'url must be amqp://'],
    ['retry: true', () => new OJSClient({ url, retry: untyped(true) }), 'retry must be an object'],
    ['retry: 5', () => new OJSClient({ url, retry: untyped(5) }), 'retry must be an object'],
    ['no callbacks', () => batch([{ type: 'a' }], nothing), 'A batch needs callbacks'],
    ['no job', () => chain(untyped(null)), 'A job must be an object'],
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
