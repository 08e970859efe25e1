import type { Response } from 'express'
import { answer } from './answer.ts'

/** The FETCHes that wait for work or for their answer to be written. */
export class Polls {
  readonly #open = new Set<Poll>()
  #isEnding = false

  get size(): number {
    return this.#open.size
  }

  /** `close` it when the request is done with. */
  open(response: Response): Poll {
    const poll = new Poll(response, () => this.#open.delete(poll))
    this.#open.add(poll)
    if (this.#isEnding) poll.end()
    return poll
  }

  /** From now on every FETCH is answered at once with what there is. */
  endAll(): void {
    this.#isEnding = true
    for (const poll of this.#open) poll.end()
  }
}

/**
 * One FETCH, and whether its client is still there. The socket is what is watched: a pipelined
 * response whose turn never came has no `close` of its own.
 */
export class Poll {
  readonly #response: Response
  readonly #controller = new AbortController()
  readonly #forget: () => void
  #settle: ((isWritten: boolean) => void) | undefined

  constructor(response: Response, forget: () => void) {
    this.#response = response
    this.#forget = forget
    response.req.socket.once('close', this.#onGone)
    if (response.req.socket.destroyed) this.end()
  }

  /** Aborts when there is nobody to wait for, or no time to. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  end(): void {
    this.#controller.abort()
  }

  /** False when the client was gone before all of the answer was handed to the system. */
  answer(text: string): Promise<boolean> {
    const response = this.#response
    const { socket } = response.req
    if (socket.destroyed) return Promise.resolve(false)
    return new Promise((resolve) => {
      this.#settle = resolve
      // When a reset discards what was still to be written, Node emits `finish` all the same.
      response.once('finish', () => resolve(!socket.destroyed))
      answer(response, 200, text)
    })
  }

  close(): void {
    this.#response.req.socket.off('close', this.#onGone)
    this.#forget()
  }

  /** Forgotten at once: where its body never came, nobody gets to `close` it (`body.ts`). */
  readonly #onGone = () => {
    this.end()
    this.#forget()
    this.#settle?.(false)
  }
}
