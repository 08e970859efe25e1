/** A service that runs one pass after another, at an interval or when it is woken. */
import { type Service, untilDeadline } from '../lifecycle.ts'
import type { Logger } from '../logger.ts'

export interface LoopOptions {
  name: string
  /** Time from the end of one pass to the start of the next, in ms. */
  everyMs: number
  /** True: the first pass begins at `start`, not `everyMs` later. */
  isDueAtStart?: boolean
  logger: Logger
  /**
   * Does one step. Returns true if there is more to do: then the same pass goes on with another step. A long
   * step checks `isStopped` and ends early.
   */
  runOnce(isStopped: () => boolean): Promise<boolean>
}

/** Runs one pass after another, never two at once. After a pass that fails, the next comes as usual. */
export class Loop implements Service {
  readonly name: string
  readonly #options: LoopOptions
  #timer: NodeJS.Timeout | undefined
  #pass: Promise<void> | undefined
  /** `wake` was called during a pass, which may have missed what the call was about: run another pass. */
  #isWanted = false
  #isStopped = true
  #hasFailed = false

  constructor(options: LoopOptions) {
    this.name = options.name
    this.#options = options
  }

  async start(): Promise<void> {
    if (!this.#isStopped) return
    this.#isStopped = false
    if (this.#options.isDueAtStart) this.wake()
    else this.#schedule()
  }

  async stop(deadline: AbortSignal): Promise<void> {
    this.#isStopped = true
    this.#isWanted = false
    clearTimeout(this.#timer)
    if (this.#pass !== undefined) await untilDeadline(this.#pass, deadline)
  }

  /** Starts a pass at once, or after the one that runs. Cheap to call often; does nothing when stopped. */
  wake(): void {
    if (this.#isStopped) return
    if (this.#pass !== undefined) {
      this.#isWanted = true
      return
    }
    clearTimeout(this.#timer)
    this.#pass = this.#run().finally(() => {
      this.#pass = undefined
      this.#schedule()
    })
  }

  #schedule(): void {
    if (this.#isStopped) return
    if (this.#isWanted) {
      this.#isWanted = false
      this.wake()
      return
    }
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.wake(), this.#options.everyMs).unref()
  }

  async #run(): Promise<void> {
    try {
      let isMore = true
      while (isMore && !this.#isStopped) isMore = await this.#options.runOnce(() => this.#isStopped)
      this.#hasFailed = false
    } catch (err) {
      // The ledger has logged the cause already, so one line per outage is enough.
      if (!this.#hasFailed) this.#options.logger.error({ err }, `${this.name} failed`)
      this.#hasFailed = true
    }
  }
}
