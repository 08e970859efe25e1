import { connect, createServer, type Server, type Socket } from 'node:net'

const SSL_REQUEST = 80_877_103
/** What begins a statement of its own in PostgreSQL's protocol: its text is in `Q` or `P`, and `Q` or `S` ends it. */
const ENDS = new Set(['Q', 'S'])

/** Where the statements stop: before the one of this number, or with this in its text, is sent, or when its answer has come. */
export interface Point {
  statement: number | string
  isAnswered: boolean
}

/**
 * Stands between a ledger and PostgreSQL, and passes one statement on at a time, whatever was sent in one flush. So a
 * test decides what others do between any two of them.
 */
export class StatementGate {
  readonly #target: URL
  readonly #server: Server
  readonly #lines = new Set<Line>()
  /** The texts of the statements since `watch`. */
  readonly texts: string[] = []
  #point: Point | null = null
  #reached: (line: Line) => void = () => {}
  #held: Line | null = null

  private constructor(target: URL) {
    this.#target = target
    this.#server = createServer({ noDelay: true }, (client) => this.#join(client))
  }

  static async start(url: string): Promise<StatementGate> {
    const gate = new StatementGate(new URL(url))
    await new Promise<void>((resolve) => gate.#server.listen(0, '127.0.0.1', resolve))
    return gate
  }

  get url(): string {
    const address = this.#server.address()
    if (typeof address !== 'object' || address === null) throw new Error('the gate is stopped')
    const url = new URL(this.#target)
    url.port = String(address.port)
    return url.href
  }

  /** Counts statements from 0 again. */
  watch(): void {
    this.texts.length = 0
    this.#point = null
  }

  /** Counts from 0 again, and resolves when the statements have stopped at this point. */
  async stopAt(point: Point): Promise<void> {
    this.watch()
    this.#point = point
    this.#held = await new Promise<Line>((resolve) => {
      this.#reached = resolve
    })
  }

  /** Goes on where it has stopped. */
  release(): void {
    this.#held?.release()
    this.#held = null
  }

  /** Resets the connection that has stopped; what was held is lost. */
  cut(): void {
    this.#held?.end()
    this.#held = null
  }

  async stop(): Promise<void> {
    for (const line of this.#lines) line.end()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #join(client: Socket): void {
    const server = connect({
      port: Number(this.#target.port),
      host: this.#target.hostname,
      noDelay: true,
    })
    const line: Line = new Line(client, server, (text) => this.#stopFor(text, line))
    this.#lines.add(line)
    client.on('close', () => this.#lines.delete(line))
  }

  /** Called before each statement; what it returns, if anything, stops the line there. */
  #stopFor(text: string, line: Line): Point | null {
    this.texts.push(text)
    const point = this.#point
    if (point === null || !isAt(point, text, this.texts.length - 1)) return null
    this.#point = null
    line.onStopped = () => this.#reached(line)
    return point
  }
}

function isAt({ statement }: Point, text: string, number: number): boolean {
  return typeof statement === 'string' ? text.includes(statement) : number === statement
}

/** One connection. */
class Line {
  onStopped = () => {}
  readonly #client: Socket
  readonly #server: Socket
  readonly #begin: (text: string) => Point | null
  #isStarted = false
  #fromClient: Buffer = Buffer.alloc(0)
  #fromServer: Buffer = Buffer.alloc(0)
  /** Whole statements that wait for the answer to the one before. */
  readonly #statements: Buffer[] = []
  #unfinished: Buffer[] = []
  #isBusy = false
  #stop: Point | null = null
  #answers: Buffer[] | null = null

  constructor(client: Socket, server: Socket, begin: (text: string) => Point | null) {
    this.#client = client
    this.#server = server
    this.#begin = begin
    client.on('data', (chunk) => this.#asked(Buffer.concat([this.#fromClient, chunk])))
    server.on('data', (chunk) => this.#answered(chunk))
    for (const socket of [client, server]) {
      socket.on('error', () => this.end())
      socket.on('close', () => this.end())
    }
  }

  /** Goes on after the point at which it has stopped. */
  release(): void {
    const stop = this.#stop
    this.#stop = null
    if (stop?.isAnswered === false) {
      this.#send(this.#statements.shift())
      return
    }
    for (const answer of this.#answers ?? []) this.#client.write(answer)
    this.#answers = null
    this.#next()
  }

  end(): void {
    this.#client.resetAndDestroy()
    this.#server.resetAndDestroy()
  }

  #asked(bytes: Buffer): void {
    let rest = bytes
    for (;;) {
      const header = this.#isStarted ? 1 : 0
      if (rest.length < header + 4) break
      const end = header + rest.readUInt32BE(header)
      if (rest.length < end) break
      this.#message(rest.subarray(0, end))
      rest = rest.subarray(end)
    }
    this.#fromClient = rest
  }

  #message(message: Buffer): void {
    if (!this.#isStarted) {
      this.#isStarted = message.readUInt32BE(4) !== SSL_REQUEST
      this.#server.write(message)
      return
    }
    const type = String.fromCharCode(message[0] ?? 0)
    // The password, and the end.
    if (type === 'p' || type === 'X') {
      this.#server.write(message)
      return
    }
    this.#unfinished.push(message)
    if (!ENDS.has(type)) return
    this.#statements.push(Buffer.concat(this.#unfinished))
    this.#unfinished = []
    if (!this.#isBusy && this.#stop === null) this.#next()
  }

  #next(): void {
    const statement = this.#statements[0]
    if (statement === undefined) return
    this.#stop = this.#begin(textOf(statement))
    if (this.#stop?.isAnswered === false) {
      this.onStopped()
      return
    }
    if (this.#stop !== null) this.#answers = []
    this.#send(this.#statements.shift())
  }

  #send(statement: Buffer | undefined): void {
    if (statement === undefined) return
    this.#isBusy = true
    this.#server.write(statement)
  }

  #answered(chunk: Buffer): void {
    if (this.#answers) this.#answers.push(chunk)
    else this.#client.write(chunk)
    if (!this.#isStarted) return
    let rest = Buffer.concat([this.#fromServer, chunk])
    while (rest.length >= 5 && rest.length >= 1 + rest.readUInt32BE(1)) {
      // ReadyForQuery.
      if (rest[0] === 'Z'.charCodeAt(0)) this.#ready()
      rest = rest.subarray(1 + rest.readUInt32BE(1))
    }
    this.#fromServer = rest
  }

  #ready(): void {
    this.#isBusy = false
    if (this.#stop === null) this.#next()
    else this.onStopped()
  }
}

/** Of `Q`: its only string; of `P`: the string behind the name. */
function textOf(statement: Buffer): string {
  const strings = statement.subarray(5).toString('utf8').split('\0')
  return (statement[0] === 'Q'.charCodeAt(0) ? strings[0] : strings[1]) ?? ''
}
