import { EventEmitter, once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'

/** One answer as it was on the wire. Header names are in lower case; of equal names the last one counts. */
export interface RawAnswer {
  status: number
  headers: Record<string, string>
  body: string
}

/** A client that sends exactly the bytes it is told to, and never more. */
export class RawClient {
  readonly socket: Socket
  /** The error code, such as `ECONNRESET`, if the connection ended with an error. */
  failure: string | undefined
  /** Not the socket, because `once` rejects when its emitter has an error, and tests expect resets. */
  readonly #progress = new EventEmitter()
  #received = Buffer.alloc(0)
  #isClosed = false

  private constructor(socket: Socket) {
    this.socket = socket
    socket.on('data', (chunk) => {
      this.#received = Buffer.concat([this.#received, chunk])
      this.#progress.emit('progress')
    })
    socket.on('error', (error: NodeJS.ErrnoException) => {
      this.failure = error.code
    })
    socket.on('close', () => {
      this.#isClosed = true
      this.#progress.emit('progress')
    })
  }

  static async connect(port: number, tls?: ConnectionOptions): Promise<RawClient> {
    const address = { port, host: '127.0.0.1', noDelay: true }
    const socket = tls === undefined ? connect(address) : connectTls({ ...address, ...tls })
    await once(socket, tls === undefined ? 'connect' : 'secureConnect')
    return new RawClient(socket)
  }

  send(data: string | Buffer): void {
    this.socket.write(data)
  }

  /** Returns the next answer. With `forHead` it has no body, whatever its Content-Length says. */
  async answer(forHead = false): Promise<RawAnswer> {
    for (;;) {
      const parsed = parse(this.#received, forHead)
      if (parsed) {
        this.#received = this.#received.subarray(parsed.length)
        return parsed.answer
      }
      if (this.#isClosed) throw new Error(`closed after: ${JSON.stringify(String(this.#received))}`)
      await once(this.#progress, 'progress')
    }
  }

  /** Resolves when the connection is closed, with the bytes that came after the last answer. */
  async closed(): Promise<string> {
    while (!this.#isClosed) await once(this.#progress, 'progress')
    return this.#received.toString()
  }

  destroy(): void {
    this.socket.destroy()
  }
}

function parse(bytes: Buffer, forHead: boolean): { answer: RawAnswer; length: number } | undefined {
  const headEnd = bytes.indexOf('\r\n\r\n')
  if (headEnd < 0) return undefined
  const [statusLine = '', ...lines] = bytes.toString('latin1', 0, headEnd).split('\r\n')
  const headers = Object.fromEntries(
    lines.map((line) => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
    }),
  )
  const status = Number(statusLine.split(' ')[1])
  const isBodiless = forHead || status === 204 || status === 100
  const end = headEnd + 4 + (isBodiless ? 0 : Number(headers['content-length'] ?? 0))
  if (bytes.length < end) return undefined
  return {
    answer: { status, headers, body: bytes.toString('utf8', headEnd + 4, end) },
    length: end,
  }
}

/** The bytes of a request. `body` adds its Content-Length unless `headers` has another. */
export function request(
  method: string,
  path: string,
  headers: Record<string, string | undefined> = {},
  body?: string | Buffer,
): Buffer {
  const all: Record<string, string | undefined> = {
    Host: 'test',
    ...(body !== undefined && { 'Content-Length': String(Buffer.byteLength(body)) }),
    ...headers,
  }
  const lines = Object.entries(all)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}: ${value}`)
  const head = `${[`${method} ${path} HTTP/1.1`, ...lines].join('\r\n')}\r\n\r\n`
  return Buffer.concat([Buffer.from(head, 'latin1'), Buffer.from(body ?? '')])
}
