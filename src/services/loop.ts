import { once } from 'node:events'
import type { Service } from '../lifecycle.ts'
import type { Logger } from '../logger.ts'

export interface LoopOptions {
  name: string
  /** From the end of one pass to the start of the next. */
  everyMs: number
  logger: Logger
  /** One pass. `isStopped`: a long one looks and ends early. */
  runOnce(isStopped: () => boolean): Promise<void> | void
}

/** Runs one pass after another, never two at once. A pass that fails is repeated like any other. */
export class Loop implements Service {
  readonly name: string
  readonly #options: LoopOptions
  #timer: NodeJS.Timeout | undefined
  #pass: Promise<void> | undefined
  #isStopped = true
  #hasFailed = false

  constructor(options: LoopOptions) {
    this.name = options.name
    this.#options = options
  }

  async start(): Promise<void> {
    if (!this.#isStopped) return
    this.#isStopped = false
    this.#schedule()
  }

  async stop(deadline: AbortSignal): Promise<void> {
    this.#isStopped = true
    clearTimeout(this.#timer)
    if (this.#pass === undefined || deadline.aborted) return
    await Promise.race([this.#pass, once(deadline, 'abort')])
  }

  #schedule(): void {
    if (this.#isStopped) return
    this.#timer = setTimeout(() => {
      this.#pass = this.#run().finally(() => {
        this.#pass = undefined
        this.#schedule()
      })
    }, this.#options.everyMs)
    this.#timer.unref()
  }

  async #run(): Promise<void> {
    try {
      await this.#options.runOnce(() => this.#isStopped)
      this.#hasFailed = false
    } catch (err) {
      // The ledger has said why; one line per outage is enough.
      if (!this.#hasFailed) this.#options.logger.error({ err }, `${this.name} failed`)
      this.#hasFailed = true
    }
  }
}
