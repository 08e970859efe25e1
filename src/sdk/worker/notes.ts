/** What a handler says about its running job: progress, at most once a second, and checkpoints. */
import { requireJson } from '../async/json-value.ts'
import { Pause } from '../async/sleep.ts'
import { JobAbortError } from './job-abort-error.ts'

/** How far a job is. */
export interface ProgressNote {
  /** 0…1. */
  progress: number
  /** A line for people, cut to 1,000 characters. */
  message?: string | undefined
  /** JSON of up to 64 KiB for programs. */
  data?: Record<string, unknown> | undefined
}

/** How a lease tells the server about its job. Each rejects if the server has not taken it. */
export interface LeaseNotes {
  progress(note: ProgressNote): Promise<void>
  /** The server keeps the newest. */
  checkpoint(state: unknown): Promise<void>
  /** The newest that this or an earlier attempt has saved; undefined: none. */
  lastCheckpoint(): Promise<unknown>
}

const EVERY_MS = 1_000

/** The part of a handler's context that is about progress and checkpoints. */
export class Notes {
  readonly #lease: LeaseNotes
  readonly #isRunning: () => boolean
  readonly #onError: (error: unknown) => void
  readonly #pause = new Pause()
  #waiting: ProgressNote | undefined
  #isSending = false

  constructor(
    lease: LeaseNotes,
    { isRunning, onError }: { isRunning(): boolean; onError(error: unknown): void },
  ) {
    this.#lease = lease
    this.#isRunning = isRunning
    this.#onError = onError
  }

  /** Sends the newest note at once, or a second after the one before. Never rejects. */
  readonly progress = (progress: number, more: Omit<ProgressNote, 'progress'> = {}): void => {
    if (!Number.isFinite(progress)) throw new TypeError('progress must be a number from 0 to 1.')
    const { message = this.#waiting?.message, data = this.#waiting?.data } = more
    this.#waiting = { progress, message, data }
    if (!this.#isSending) void this.#send()
  }

  readonly checkpoint = async (state: unknown): Promise<void> => {
    if (!this.#isRunning()) throw new JobAbortError('lost')
    if (state === undefined) throw new TypeError('A checkpoint must be JSON.')
    requireJson({ state })
    await this.#lease.checkpoint(state)
  }

  readonly lastCheckpoint = (): Promise<unknown> => this.#lease.lastCheckpoint()

  /** The job is reported: a note that waits is not sent any more. */
  end(): void {
    this.#waiting = undefined
    this.#pause.wake()
  }

  async #send(): Promise<void> {
    this.#isSending = true
    while (this.#waiting !== undefined && this.#isRunning()) {
      const note = this.#waiting
      this.#waiting = undefined
      await this.#lease.progress(note).catch(this.#onError)
      await this.#pause.sleep(EVERY_MS)
    }
    this.#isSending = false
  }
}
