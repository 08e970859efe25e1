/** One stream of server-sent events: its frames, its heartbeats, and a reader who does not read. */
import type { Request, Response } from 'express'
import { answerHeaders } from '../message/answer-headers.ts'

/** Without an event for this long, a comment shows that the connection lives (OJS realtime: 15 s at most). */
const HEARTBEAT_MS = 10_000
export interface Patience {
  /** A reader who has taken nothing for this long is dropped. */
  stuckMs: number
  /** For this long a reader who is dropped may still read why. */
  lastWordMs: number
}

/** An event as it is written. */
export interface StreamEvent {
  id?: string
  /** Without a name a browser takes it for a message. */
  event?: string
  /** Text: JSON in one line. */
  data: object | string
}

/** Writes nothing while the client does not read: what it missed, its source must still have. */
export class EventStream {
  readonly #response: Response
  readonly #patience: Patience
  #isBlocked = false
  #isEnded = false
  #wroteAt = performance.now()

  /** Sends the headers of the answer. `onEnd`: called once, when nothing more is written. */
  constructor(request: Request, response: Response, patience: Patience, onEnd: () => void) {
    this.#response = response
    this.#patience = patience
    const headers = answerHeaders(
      request,
      ['Cache-Control', 'no-cache, no-transform', 'X-Accel-Buffering', 'no'],
      'text/event-stream',
    )
    const length = headers.indexOf('Content-Length')
    response.writeHead(200, headers.toSpliced(length, 2))
    response.on('drain', () => {
      this.#isBlocked = false
      this.#wroteAt = performance.now()
    })
    response.once('close', () => {
      this.#isEnded = true
      onEnd()
    })
    request.socket.once('end', () => this.end())
    this.#write('retry: 3000\n\n')
  }

  /** May something be written now? */
  get isReady(): boolean {
    return !this.#isBlocked && !this.#isEnded
  }

  send({ id, event, data }: StreamEvent): void {
    const known = id === undefined ? '' : `id: ${id}\n`
    const named = event === undefined ? '' : `event: ${event}\n`
    const text = typeof data === 'string' ? data : JSON.stringify(data)
    this.#write(`${known}${named}data: ${text}\n\n`)
  }

  /** Called several times a second. */
  keepAlive(): void {
    const silentMs = performance.now() - this.#wroteAt
    if (this.#isBlocked && silentMs > this.#patience.stuckMs) this.#drop()
    else if (this.isReady && silentMs > HEARTBEAT_MS) this.#write(':heartbeat\n\n')
  }

  end(last?: StreamEvent): void {
    if (this.#isEnded) return
    if (last) this.send(last)
    this.#isEnded = true
    this.#response.end()
  }

  /** The final word reaches a reader who begins to read again before the connection is cut. */
  #drop(): void {
    const { stuckMs, lastWordMs } = this.#patience
    this.end({ event: 'system.slow_reader', data: { stuck_ms: stuckMs } })
    setTimeout(() => this.#response.destroy(), lastWordMs).unref()
  }

  #write(text: string): void {
    if (this.#isEnded) return
    this.#wroteAt = performance.now()
    if (!this.#response.write(text)) this.#isBlocked = true
  }
}
