import { connect, createServer, type Server, type Socket } from 'node:net'

/** Which way the bytes of a connection go. */
export type Direction = 'to-broker' | 'to-gateway'

/** Called with every chunk that comes in before it is passed on. Connections are numbered from 1. */
export type Tap = (connection: number, direction: Direction, chunk: Buffer) => void

interface Pair {
  readonly connection: number
  readonly client: Socket
  readonly server: Socket
}

/**
 * Stands between a gateway and its broker and does what a network may do: bytes stop in one direction while
 * both connections stay up, and go on later or never.
 */
export class TcpProxy {
  readonly #server: Server
  readonly #pairs = new Set<Pair>()
  readonly #held = new Set<Direction>()
  readonly #lags = new Map<number, number>()
  readonly #tap: Tap
  #connections = 0
  #isRefusing = false

  readonly #target: URL

  private constructor(target: URL, tap: Tap) {
    this.#target = target
    this.#tap = tap
    this.#server = createServer({ noDelay: true }, (client) => {
      if (this.#isRefusing) this.#refuse(client)
      else this.#join(client, Number(target.port))
    })
  }

  /** `url` is the broker's; connect to `proxy.url` instead. */
  static async start(url: string, tap: Tap = () => {}): Promise<TcpProxy> {
    const proxy = new TcpProxy(new URL(url), tap)
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve))
    return proxy
  }

  get url(): string {
    const address = this.#server.address()
    if (typeof address !== 'object' || address === null) throw new Error('the proxy is stopped')
    const url = new URL(this.#target)
    url.hostname = '127.0.0.1'
    url.port = String(address.port)
    return url.href
  }

  /** Lets nothing pass in this direction until `release`; what was sent waits. */
  hold(direction: Direction): void {
    this.#held.add(direction)
    for (const pair of this.#pairs) source(pair, direction).pause()
  }

  release(direction: Direction): void {
    this.#held.delete(direction)
    for (const pair of this.#pairs) source(pair, direction).resume()
  }

  /** Holds this direction of one connection only. */
  holdOne(connection: number, direction: Direction): void {
    for (const pair of this.#pairs) {
      if (pair.connection === connection) source(pair, direction).pause()
    }
  }

  /** Delays all later bytes to the gateway over this connection. */
  lag(connection: number, ms: number): void {
    this.#lags.set(connection, ms)
  }

  /** Resets every connection at once; what was held is lost. New ones are accepted. */
  cut(): void {
    for (const pair of this.#pairs) reset(pair)
    this.#held.clear()
  }

  /** Resets one connection only. */
  cutOne(connection: number): void {
    for (const pair of this.#pairs) if (pair.connection === connection) reset(pair)
  }

  /** Resets every connection for the gateway only; the broker keeps a connection on which nothing comes. */
  strand(): void {
    for (const { client, server } of this.#pairs) {
      client.removeAllListeners('close')
      client.resetAndDestroy()
      server.pause()
    }
  }

  /** Whether new connections are reset as soon as they have sent something. */
  refuse(isRefusing: boolean): void {
    this.#isRefusing = isRefusing
  }

  async stop(): Promise<void> {
    this.cut()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #refuse(client: Socket): void {
    this.#connections += 1
    const connection = this.#connections
    client.on('error', () => {})
    client.once('data', (chunk) => {
      this.#tap(connection, 'to-broker', chunk)
      client.resetAndDestroy()
    })
  }

  #join(client: Socket, port: number): void {
    this.#connections += 1
    const connection = this.#connections
    const server = connect({ port, host: '127.0.0.1', noDelay: true })
    const pair = { connection, client, server }
    this.#pairs.add(pair)
    const leave = () => {
      this.#pairs.delete(pair)
      client.destroy()
      server.destroy()
    }
    for (const [from, to, direction] of [
      [client, server, 'to-broker'],
      [server, client, 'to-gateway'],
    ] as const) {
      from.on('data', (chunk) => {
        this.#tap(connection, direction, chunk)
        const lagMs = direction === 'to-gateway' ? this.#lags.get(connection) : undefined
        if (lagMs === undefined) to.write(chunk)
        else setTimeout(() => to.write(chunk), lagMs)
      })
      from.on('end', () => to.end())
      from.on('error', leave)
      from.on('close', leave)
    }
    for (const direction of this.#held) source(pair, direction).pause()
  }
}

function reset({ client, server }: Pair): void {
  client.resetAndDestroy()
  server.resetAndDestroy()
}

function source(pair: Pair, direction: Direction): Socket {
  return direction === 'to-broker' ? pair.client : pair.server
}
