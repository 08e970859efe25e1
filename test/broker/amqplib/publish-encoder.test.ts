import { createRequire } from 'node:module'
import { PassThrough } from 'node:stream'
import type { ConfirmChannel, Options } from 'amqplib'
import fc from 'fast-check'
import { beforeEach, expect, test } from 'vitest'
import { encodePublishes, publishFrames } from '../../../src/broker/amqplib/publish-encoder.ts'
import { jobMessageOf } from '../../../src/broker/messages/job-message.ts'
import { row } from '../harness.ts'

const require = createRequire(import.meta.url)
const { Connection } = require('../../../node_modules/amqplib/lib/connection.js')
const { ConfirmChannel: OwnChannel } = require('../../../node_modules/amqplib/lib/channel_model.js')

interface Peer {
  connection: { frameMax: number; sentSinceLastCheck: boolean }
  channel: ConfirmChannel
  /** Returns what was written since the last call. */
  written(): Buffer
}

/** An open channel of amqplib, on a connection that leads nowhere. */
function openPeer(frameMax = 4096): Peer {
  const connection = new Connection(new PassThrough())
  connection.frameMax = frameMax
  connection.channelMax = 10
  const channel = new OwnChannel(connection)
  channel.allocate()
  const { buffer } = connection.channels[channel.ch]
  return {
    connection,
    channel,
    written() {
      const pieces: Buffer[] = []
      for (;;) {
        const piece = buffer.read()
        if (piece === null) break
        pieces.push(piece)
      }
      return Buffer.concat(pieces)
    },
  }
}

let amqplib: Peer
let ours: Peer

function connect(frameMax?: number): void {
  amqplib = openPeer(frameMax)
  ours = openPeer(frameMax)
  expect(encodePublishes(ours.connection)).toBe(true)
}

beforeEach(() => connect())

interface Publication {
  exchange: string
  routingKey: string
  content: Buffer
  options: Options.Publish
}

/** The bytes that were sent, or the text of the error. */
function sentBy({ channel, written }: Peer, publication: Publication): string {
  const { exchange, routingKey, content, options } = publication
  try {
    channel.publish(exchange, routingKey, content, options)
  } catch (error) {
    return String(error)
  }
  const frames = written()
  expect(frames.length).toBeGreaterThan(content.length)
  return frames.toString('hex')
}

function expectSame(publication: Publication): void {
  expect(sentBy(ours, publication)).toBe(sentBy(amqplib, publication))
}

/** Whether our own encoder takes the publish; `publish` adds what amqplib writes in any case. */
function isQuick({ exchange, routingKey, content, options }: Publication): boolean {
  const { mandatory, persistent, headers, ...properties } = options
  const publish = {
    fields: { exchange, routingKey, mandatory },
    properties: { ...properties, deliveryMode: persistent ? 2 : 1, headers: headers ?? {} },
    content,
  }
  return publishFrames(1, publish, 4096) !== null
}

const TRACE = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`
const MESSAGE: Publication = {
  exchange: 'ojs.direct',
  routingKey: 'email',
  ...jobMessageOf(row({ carry: { tags: ['a', 'b'], traceparent: TRACE } })),
}

test('our encoder takes a job message, and gives it the bytes of amqplib', () => {
  expect(isQuick(MESSAGE)).toBe(true)
  expectSame(MESSAGE)
})

test('our encoder takes a job message of a native producer, and gives it the bytes of amqplib', () => {
  const headers = { ...MESSAGE.options.headers, 'x-ojs-native': true }
  const published = { ...MESSAGE, options: { ...MESSAGE.options, headers } }
  expect(isQuick(published)).toBe(true)
  expectSame(published)
})

test('a message that our encoder cannot encode goes through amqplib', () => {
  const odd = { ...MESSAGE, options: { ...MESSAGE.options, headers: { 'x-name': 'Zoë' } } }
  expect(isQuick(odd)).toBe(false)
  expectSame(odd)
})

test('a body of more than one frame, or of none, gets the bytes of amqplib', () => {
  for (const bytes of [0, 1, 4087, 4088, 4089, 20_000]) {
    expectSame({ ...MESSAGE, content: Buffer.alloc(bytes, 'x') })
  }
})

test('a body of one long frame, and one that is too long to be copied, get the bytes of amqplib', () => {
  connect(131_072)
  for (const bytes of [16_384, 16_385, 200_000]) {
    expectSame({ ...MESSAGE, content: Buffer.alloc(bytes, 'x') })
  }
})

test('headers that do not fit into the buffer get the bytes of amqplib', () => {
  for (const bytes of [3000, 3500, 3600, 3700, 3800, 4000, 5000]) {
    expectSame({ ...MESSAGE, options: { headers: { a: 'y'.repeat(bytes) } } })
  }
})

test('headers that fill the buffer to the byte get the bytes of amqplib', () => {
  const sent = (bytes: number) => ({
    ...MESSAGE,
    options: { headers: { a: 'y'.repeat(bytes) } },
  })
  const limit = Array.from({ length: 4096 }, (_, bytes) => bytes).findLastIndex((bytes) =>
    isQuick(sent(bytes)),
  )
  expect(limit).toBeGreaterThan(3900)
  for (let bytes = limit - 10; bytes < limit + 10; bytes++) expectSame(sent(bytes))
})

test('a message after one that could not be encoded gets the bytes of amqplib', () => {
  expectSame({ ...MESSAGE, exchange: 'ä' })
  expectSame({ ...MESSAGE, options: { headers: { a: 'y'.repeat(5000) } } })
  expect(isQuick(MESSAGE)).toBe(true)
  expectSame(MESSAGE)
})

test('a publish counts as activity for the heartbeat, and returns false without room, as in amqplib', () => {
  expect(ours.connection.sentSinceLastCheck).toBe(false)
  const sendAll = ({ channel }: Peer) =>
    Array.from({ length: 3000 }, () => channel.publish('e', 'k', MESSAGE.content, MESSAGE.options))
  const told = sendAll(ours)
  expect(ours.connection.sentSinceLastCheck).toBe(true)
  expect(told.at(-1)).toBe(false)
  expect(told).toEqual(sendAll(amqplib))
})

test('encodePublishes() leaves an amqplib alone that is made differently', () => {
  const sendMessage = () => true
  const whole = { sendMessage, channels: [], frameMax: 4096, sentSinceLastCheck: false }
  for (const name of Object.keys(whole)) {
    const connection = { ...whole, [name]: undefined }
    expect(encodePublishes(connection)).toBe(false)
    if (name !== 'sendMessage') expect(connection.sendMessage).toBe(sendMessage)
  }
  expect(encodePublishes(whole)).toBe(true)
})

interface Values {
  text: fc.Arbitrary<string>
  header: fc.Arbitrary<unknown>
  octet: fc.Arbitrary<number>
  timestamp: fc.Arbitrary<number>
}

function publications({ text, header, octet, timestamp }: Values): fc.Arbitrary<Publication> {
  const options = {
    mandatory: fc.boolean(),
    persistent: fc.boolean(),
    contentType: text,
    contentEncoding: text,
    headers: fc.dictionary(text, header, { maxKeys: 5 }),
    priority: octet,
    correlationId: text,
    replyTo: text,
    expiration: text,
    messageId: text,
    timestamp,
    type: text,
    userId: text,
    appId: text,
  }
  return fc.record({
    exchange: text,
    routingKey: text,
    content: fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
    options: fc.record(options, { requiredKeys: [] }),
  })
}

const PLAIN: Values = {
  text: fc.string({ maxLength: 40 }),
  header: fc.oneof(
    fc.string({ maxLength: 100 }),
    fc.integer().map((value) => ({ '!': 'int32', value })),
    fc.boolean(),
    fc.constant(undefined),
  ),
  octet: fc.nat(255),
  timestamp: fc.oneof(fc.nat(2 ** 31), fc.maxSafeNat()),
}

function rarely<T>(plain: fc.Arbitrary<T>, ...odd: fc.Arbitrary<T>[]): fc.Arbitrary<T> {
  return fc.oneof({ weight: 40, arbitrary: plain }, ...odd)
}

const ODD_NUMBERS = fc.constantFrom(-1, 256, 1.5, Number.NaN, 2 ** 32 + 5, 2 ** 53)
const ODD_INT32 = fc.constantFrom(2 ** 31, -(2 ** 31) - 1, 1.5, '7', null)
const ODD: Values = {
  text: rarely(
    PLAIN.text,
    fc.string({ maxLength: 20, unit: 'grapheme' }),
    fc.string({ minLength: 250, maxLength: 260 }),
  ),
  header: rarely(
    PLAIN.header,
    ODD_INT32.map((value) => ({ '!': 'int32', value })),
    fc.string({ maxLength: 30, unit: 'grapheme' }),
    fc.constantFrom(null, 7, 1.5, ['a'], { b: 1 }, { '!': 'timestamp', value: 1 }),
  ),
  octet: rarely(PLAIN.octet, ODD_NUMBERS),
  timestamp: rarely(PLAIN.timestamp, ODD_NUMBERS),
}

test('plain messages are encoded by our encoder, and get the bytes of amqplib', () => {
  const law = (publication: Publication) => {
    expect(isQuick(publication)).toBe(true)
    expectSame(publication)
  }
  fc.assert(fc.property(publications(PLAIN), law), { numRuns: 1000 })
})

test('any message gets the bytes or the error of amqplib', () => {
  fc.assert(fc.property(publications(ODD), expectSame), { numRuns: 2000 })
})
