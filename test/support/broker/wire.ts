import { eventually } from '../gateway/in-process.ts'
import { defs, type Frame, takeFrames } from './amqp-codec.ts'
import { type Direction, TcpProxy } from './tcp-proxy.ts'

/** One AMQP method on the wire, with its content. */
export interface Method {
  /** The number of the TCP connection to the proxy, from 1. */
  readonly connection: number
  readonly channel: number
  readonly from: 'us' | 'broker'
  /** amqplib's spelling: `basic.publish` is `BasicPublish`. */
  readonly name: string
  readonly fields: Readonly<Record<string, unknown>>
  /** `performance.now()` when its last byte had arrived. */
  readonly at: number
  readonly properties?: Readonly<Record<string, unknown>>
  readonly body?: Buffer
}

type Wanted = Readonly<Record<string, unknown>> | ((method: Method) => boolean)

/** Methods whose content is not complete yet, by channel. */
type Pending = Map<number, Method & { left: number | null; chunks: Buffer[] }>

interface Stream {
  rest: Buffer
  readonly pending: Pending
}

const WITH_CONTENT = ['BasicPublish', 'BasicDeliver', 'BasicReturn', 'BasicGetOk']
const PROTOCOL_HEADER = Buffer.from('AMQP\0\0\x09\x01', 'latin1')

/** Stands between a gateway or worker and RabbitMQ, and records every AMQP method that passes. */
export class Wire {
  /** In the order in which they were complete. */
  readonly methods: Method[] = []
  /** `performance.now()` when each connection began to speak AMQP, including refused ones. */
  readonly attempts: number[] = []
  /** Frames that came between a method and the end of its content, on the same channel. */
  readonly intruders: Frame[] = []
  readonly proxy: TcpProxy
  readonly #streams = new Map<string, Stream>()

  private constructor(proxy: TcpProxy) {
    this.proxy = proxy
  }

  get url(): string {
    return this.proxy.url
  }

  /** `url` is the broker's; connect to `wire.url` instead. */
  static async start(url: string): Promise<Wire> {
    const proxy = await TcpProxy.start(url, (...seen) => wire.#onBytes(...seen))
    const wire = new Wire(proxy)
    return wire
  }

  /** All methods of this name with these fields. */
  all(name: string, wanted: Wanted = {}, from = 0): Method[] {
    const matches = typeof wanted === 'function' ? wanted : hasFields(wanted)
    return this.methods.slice(from).filter((method) => method.name === name && matches(method))
  }

  /** The first such method after `from` (a former `methods.length`); waits until there is one. */
  async next(name: string, wanted: Wanted = {}, from = 0): Promise<Method> {
    let found: Method | undefined
    await eventually(() => {
      found = this.all(name, wanted, from)[0]
      return found !== undefined
    }).catch(() => {
      const seen = this.methods.slice(from).map((method) => method.name)
      throw new Error(`no ${name} ${JSON.stringify(wanted)} among ${seen.slice(-50).join(' ')}`)
    })
    if (!found) throw new Error('unreachable')
    return found
  }

  /** All methods of the same channel, from its open to its close, because its number is used again later. */
  onChannelOf(method: Method): Method[] {
    const { connection, channel } = method
    const all = this.methods.filter(
      (other) => other.connection === connection && other.channel === channel,
    )
    const isOpen = ({ name }: Method) => name === 'ChannelOpen'
    const at = all.indexOf(method)
    const from = Math.max(0, all.slice(0, at + 1).findLastIndex(isOpen))
    const next = all.findIndex((other, i) => i > at && isOpen(other))
    return all.slice(from, next === -1 ? all.length : next)
  }

  /** The publisher confirm of a publish that was the only one under way on its channel. */
  confirmOf(publish: Method): Method | undefined {
    return this.onChannelOf(publish).find(
      (method) => method.name === 'BasicAck' && this.inOrder(publish, method),
    )
  }

  inOrder(...methods: Method[]): boolean {
    const places = methods.map((method) => this.methods.indexOf(method))
    return places.every((place, i) => i === 0 || place > (places[i - 1] ?? 0))
  }

  stop(): Promise<void> {
    return this.proxy.stop()
  }

  #onBytes(connection: number, direction: Direction, chunk: Buffer): void {
    const key = `${connection} ${direction}`
    const stream = this.#streams.get(key)
    if (stream) this.#read(connection, direction, stream, chunk)
    else {
      const isClient = direction === 'to-broker'
      const first = { rest: Buffer.alloc(0), pending: new Map() }
      this.#streams.set(key, first)
      if (isClient) this.attempts.push(performance.now())
      const bytes = isClient ? chunk.subarray(PROTOCOL_HEADER.length) : chunk
      this.#read(connection, direction, first, bytes)
    }
  }

  #read(connection: number, direction: Direction, stream: Stream, chunk: Buffer): void {
    const { taken, rest } = takeFrames(Buffer.concat([stream.rest, chunk]))
    stream.rest = rest
    for (const frame of taken) {
      const from = direction === 'to-broker' ? 'us' : 'broker'
      this.#onFrame({ connection, channel: frame.channel, from }, stream.pending, frame)
    }
  }

  #onFrame(at: Pick<Method, 'connection' | 'channel' | 'from'>, pending: Pending, frame: Frame) {
    const open = pending.get(frame.channel)
    if (open) this.#addContent(pending, open, frame)
    else if (frame.id !== undefined) {
      const { name } = defs.info(frame.id)
      const method = { ...at, name, fields: frame.fields ?? {}, at: performance.now() }
      if (WITH_CONTENT.includes(name)) {
        pending.set(frame.channel, { ...method, left: null, chunks: [] })
      } else this.methods.push(method)
    }
  }

  #addContent(
    pending: Pending,
    open: Method & { left: number | null; chunks: Buffer[]; properties?: object },
    frame: Frame,
  ): void {
    if (open.left === null && frame.size !== undefined) {
      open.left = frame.size
      open.properties = frame.fields ?? {}
    } else if (open.left !== null && frame.content) {
      open.left -= frame.content.length
      open.chunks.push(Buffer.from(frame.content))
    } else this.intruders.push(frame)
    if (open.left !== 0) return
    pending.delete(frame.channel)
    const { left: _, chunks, ...method } = open
    this.methods.push({ ...method, body: Buffer.concat(chunks), at: performance.now() })
  }
}

function hasFields(wanted: Readonly<Record<string, unknown>>): (method: Method) => boolean {
  const entries = Object.entries(wanted)
  return ({ fields }) => entries.every(([name, value]) => fields[name] === value)
}
