import type { Writable } from 'node:stream'
import amqp from 'amqplib'

/** The value of one header as it goes over the wire: the tag, and the bytes behind it. */
export interface RawHeader {
  name: string
  tag: string
  /** A value that amqplib writes with another tag, but with as many bytes behind it. */
  like: { tag: string; value: unknown }
}

/** A signed 64-bit integer with the tag of the AMQP 0-9-1 grammar, as Python's `amqp` sends it. */
export function longOfTheGrammar(name: string, value: number): RawHeader {
  return { name, tag: 'L', like: { tag: 'l', value: { '!': 'int64', value } } }
}

/** Nested arrays; amqplib's own decoder overflows its stack at some 4,500 levels. */
export function nestedArrays(name: string, levels: number): RawHeader {
  const value = Buffer.alloc(5 * (levels - 1))
  for (let at = 0; at < value.length; at += 5) {
    value.write('A', at, 'latin1')
    value.writeUInt32BE(value.length - at - 5, at + 1)
  }
  return { name, tag: 'A', like: { tag: 'x', value } }
}

export interface RawMessage {
  exchange: string
  routingKey: string
  content: Buffer
  options: amqp.Options.Publish
  raw: readonly RawHeader[]
}

/** Publishes, with a confirm, headers that amqplib cannot encode. */
export async function publishRaw(url: string, messages: readonly RawMessage[]): Promise<void> {
  const connection = await amqp.connect(url)
  const { stream } = connection.connection as unknown as { stream: Writable }
  const raw = messages.flatMap((message) => message.raw)
  const write = stream.write.bind(stream) as (bytes: Buffer) => boolean
  stream.write = ((bytes: Buffer) => write(withTags(bytes, raw))) as Writable['write']
  const channel = await connection.createConfirmChannel()
  for (const { exchange, routingKey, content, options, raw: own } of messages) {
    const like = Object.fromEntries(own.map((header) => [header.name, header.like.value]))
    const headers = { ...options.headers, ...like }
    channel.publish(exchange, routingKey, content, { mandatory: true, ...options, headers })
  }
  await channel.waitForConfirms()
  await connection.close()
}

function withTags(bytes: Buffer, raw: readonly RawHeader[]): Buffer {
  const copy = Buffer.from(bytes)
  for (const { name, tag, like } of raw) {
    const at = copy.indexOf(`${name}${like.tag}`, 0, 'latin1')
    if (at !== -1) copy.write(tag, at + name.length, 'latin1')
  }
  return copy
}
