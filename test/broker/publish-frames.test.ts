import { createRequire } from 'node:module'
import { PassThrough } from 'node:stream'
import type { ConfirmChannel, Options } from 'amqplib'
import fc from 'fast-check'
import { beforeEach, expect, test } from 'vitest'
import { encodePublishes, publishFrames } from '../../src/broker/publish-frames.ts'
import { tokenOf } from '../../src/broker/token.ts'
import { row } from './harness.ts'

const require = createRequire(import.meta.url)
const { Connection } = require('../../node_modules/amqplib/lib/connection.js')
const { ConfirmChannel: OwnChannel } = require('../../node_modules/amqplib/lib/channel_model.js')

interface Peer {
  connection: { frameMax: number; sentSinceLastCheck: boolean }
  channel: ConfirmChannel
  /** What was written since the last call. */
  written(): Buffer
}

/** An open channel of amqplib, on a connection to nobody. */
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

/** The bytes, or the name of what was thrown. */
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

/** What no argument of `publish` says, and amqplib writes always. */
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
const TOKEN: Publication = {
  exchange: 'ojs.direct',
  routingKey: 'email',
  ...tokenOf(row({ carry: { tags: ['a', 'b'], traceparent: TRACE } })),
}

test('a token is among the plain messages, and the same as amqplib has it', () => {
  expect(isQuick(TOKEN)).toBe(true)
  expectSame(TOKEN)
})

test('so is that of a native producer', () => {
  const headers = { ...TOKEN.options.headers, 'x-ojs-native': true }
  const published = { ...TOKEN, options: { ...TOKEN.options, headers } }
  expect(isQuick(published)).toBe(true)
  expectSame(published)
})

test('what it cannot encode goes through amqplib', () => {
  const odd = { ...TOKEN, options: { ...TOKEN.options, headers: { 'x-name': 'Zoë' } } }
  expect(isQuick(odd)).toBe(false)
  expectSame(odd)
})

test('a body of more than one frame, or of none', () => {
  for (const bytes of [0, 1, 4087, 4088, 4089, 20_000]) {
    expectSame({ ...TOKEN, content: Buffer.alloc(bytes, 'x') })
  }
})

test('a body of one long frame, and one that is too long to be copied', () => {
  connect(131_072)
  for (const bytes of [16_384, 16_385, 200_000]) {
    expectSame({ ...TOKEN, content: Buffer.alloc(bytes, 'x') })
  }
})

test('more text than there is room for', () => {
  for (const bytes of [3000, 3500, 3600, 3700, 3800, 4000, 5000]) {
    expectSame({ ...TOKEN, options: { headers: { a: 'y'.repeat(bytes) } } })
  }
})

test('as much text as there is room for, to the byte', () => {
  const sent = (bytes: number) => ({
    ...TOKEN,
    options: { headers: { a: 'y'.repeat(bytes) } },
  })
  const limit = Array.from({ length: 4096 }, (_, bytes) => bytes).findLastIndex((bytes) =>
    isQuick(sent(bytes)),
  )
  expect(limit).toBeGreaterThan(3900)
  for (let bytes = limit - 10; bytes < limit + 10; bytes++) expectSame(sent(bytes))
})

test('the next one is not the worse for one that it could not encode', () => {
  expectSame({ ...TOKEN, exchange: 'ä' })
  expectSame({ ...TOKEN, options: { headers: { a: 'y'.repeat(5000) } } })
  expect(isQuick(TOKEN)).toBe(true)
  expectSame(TOKEN)
})

test('spares the heartbeat, as any frame does, and tells when there is no room', () => {
  expect(ours.connection.sentSinceLastCheck).toBe(false)
  const sendAll = ({ channel }: Peer) =>
    Array.from({ length: 3000 }, () => channel.publish('e', 'k', TOKEN.content, TOKEN.options))
  const told = sendAll(ours)
  expect(ours.connection.sentSinceLastCheck).toBe(true)
  expect(told.at(-1)).toBe(false)
  expect(told).toEqual(sendAll(amqplib))
})

test('an amqplib that is made differently is left as it is', () => {
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

test('plain messages are encoded here, and have the bytes that amqplib gives them', () => {
  const law = (publication: Publication) => {
    expect(isQuick(publication)).toBe(true)
    expectSame(publication)
  }
  fc.assert(fc.property(publications(PLAIN), law), { numRuns: 1000 })
})

test('whatever is published, the bytes and the errors are those of amqplib', () => {
  fc.assert(fc.property(publications(ODD), expectSame), { numRuns: 2000 })
})
