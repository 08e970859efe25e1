/** FETCHes that wait for jobs, and whether their clients are still there to get them. */
import type { Response } from 'express'
import { answer } from '../message/respond.ts'

/** The FETCHes that wait for jobs, or for their answer to be written. */
export class LongPolls {
  readonly #open = new Set<Poll>()
  #isEnding = false

  get size(): number {
    return this.#open.size
  }

  /** The caller calls `close` on the poll when the request is done. */
  open(response: Response): Poll {
    const poll = new Poll(response, () => this.#open.delete(poll))
    this.#open.add(poll)
    if (this.#isEnding) poll.end()
    return poll
  }

  /** Answers the FETCHes of these workers at once: they take no more jobs, and need not wait to hear it. */
  endOf(isMeant: (workerId: string) => boolean): void {
    for (const poll of this.#open) {
      if (poll.workerId !== undefined && isMeant(poll.workerId)) poll.end()
    }
  }

  /** From now on every FETCH is answered at once, with the jobs that are there. */
  endAll(): void {
    this.#isEnding = true
    for (const poll of this.#open) poll.end()
  }
}

/**
 * One FETCH, and whether its client is still connected. It watches the socket, because a pipelined response
 * whose turn never came emits no `close`.
 */
export class Poll {
  /** Set once the body is read; undefined if the FETCH names no worker. */
  workerId: string | undefined
  readonly #response: Response
  readonly #controller = new AbortController()
  readonly #forget: () => void
  #settle: ((isWritten: boolean) => void) | undefined
  #isHalfClosed = false

  constructor(response: Response, forget: () => void) {
    this.#response = response
    this.#forget = forget
    const { socket } = response.req
    socket.once('close', this.#onGone)
    socket.once('end', this.#onHalfClosed)
    if (socket.destroyed) this.end()
  }

  /**
   * True after the client has closed its side. It may still read, but a client that is gone looks the same:
   * its answer must not have jobs.
   */
  get isHalfClosed(): boolean {
    return this.#isHalfClosed
  }

  /** Aborts when the client is gone or when the gateway stops. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  end(): void {
    this.#controller.abort()
  }

  /** Sends the answer. False if the client left before all of it was handed to the system. */
  answer(text: string): Promise<boolean> {
    const response = this.#response
    const { socket } = response.req
    if (socket.destroyed) return Promise.resolve(false)
    return new Promise((resolve) => {
      this.#settle = resolve
      // When a reset discards unwritten data, Node emits `finish` all the same.
      response.once('finish', () => resolve(!socket.destroyed))
      answer(response, 200, text)
    })
  }

  close(): void {
    const { socket } = this.#response.req
    socket.off('close', this.#onGone)
    socket.off('end', this.#onHalfClosed)
    this.#forget()
  }

  readonly #onHalfClosed = () => {
    this.#isHalfClosed = true
    this.end()
    // The answer, perhaps with jobs, waits for that to an earlier request of a pipeline, and cannot be changed.
    if (this.#settle !== undefined && this.#response.socket === null) {
      this.#response.req.socket.destroy()
    }
  }

  /** Forget the poll here as well: if the body never arrives, no code gets to call `close` (`body.ts`). */
  readonly #onGone = () => {
    this.end()
    this.#forget()
    this.#settle?.(false)
  }
}
