import { EventEmitter, once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { type ConnectionOptions, connect as connectTls } from 'node:tls'

/** One answer as it was on the wire. Header names in lower case; the last of a name wins. */
export interface RawAnswer {
  status: number
  headers: Record<string, string>
  body: string
}

/** A client that sends exactly the bytes it is told to, and never more. */
export class RawClient {
  readonly socket: Socket
  /** `ECONNRESET` and the like, when the connection did not end in peace. */
  failure: string | undefined
  /** Of its own, because `once` rejects when the emitter has an error: a reset is no failure. */
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

  /** The next answer. `forHead`: there is no body, whatever Content-Length says. */
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

  /** Resolves with what came after the last answer, when the server has closed. */
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

/** A request as text. `body` brings its Content-Length unless `headers` says otherwise. */
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
