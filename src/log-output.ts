import { write, writeSync } from 'node:fs'

/** In characters; some 60,000 lines. */
const MAX_WAITING = 16 * 1024 * 1024
/** In bytes, what a pipe takes. What comes of a write that is under way at the end nobody learns. */
const MAX_WRITE = 65_536
/**
 * Before what could not be written is tried again: a pipe that is full, or anything else. A reader empties
 * the 64 KiB of a pipe in a few ms: with one pause for all it would get no more than that in each.
 */
const MIN_BUSY_RETRY_MS = 1
const MAX_BUSY_RETRY_MS = 100
const RETRY_MS = 1_000
/** The end of the process waits no longer for a pipe that is full. */
const EXIT_WAIT_MS = 1_000
const EXIT_PAUSE_MS = 10

export interface LogOutputOptions {
  fd: number
  /** A line about so many that were lost. */
  lostLine(lines: number): string
  maxWaiting?: number
}

/**
 * Where log lines go. Nothing blocks, and a line is out as soon as the write before it has returned,
 * so that a `kill -9` loses at most the lines of one write.
 *
 * Not `pino.destination`: a disk that is full is an uncaught error there, after which its exit hook
 * tries for ever and no signal ends the process any more; and what waits for a reader that does not
 * read has no bound (it has `maxLength`, but no word about what is lost).
 */
export class LogOutput {
  readonly #options: LogOutputOptions
  #waiting = ''
  /** What is left of the present write. */
  #sending: Buffer | null = null
  #isWriting = false
  #busyRetryMs = MIN_BUSY_RETRY_MS
  #retry: NodeJS.Timeout | undefined
  #lost = 0
  /** Whoever read it has gone, and nobody can come back. */
  #isGone = false

  constructor(options: LogOutputOptions) {
    this.#options = options
  }

  write(line: string): void {
    if (this.#isGone) return
    if (this.#waiting.length + line.length > (this.#options.maxWaiting ?? MAX_WAITING)) {
      this.#lost += 1
      return
    }
    this.#waiting += line
    if (!this.#isWriting && this.#retry === undefined) this.#send()
  }

  /**
   * For the end of the process: what is not under way yet. What is, the system finishes, or does not. It
   * gives up where nothing can be written: a log is no reason to stay.
   */
  flushSync(): void {
    const begun = this.#sending?.subarray(this.#isWriting ? MAX_WRITE : 0)
    let rest = Buffer.concat([begun ?? Buffer.alloc(0), Buffer.from(this.#waiting)])
    this.#waiting = ''
    this.#sending = null
    const until = performance.now() + EXIT_WAIT_MS
    while (rest.length > 0 && !this.#isGone) {
      try {
        rest = rest.subarray(writeSync(this.#options.fd, rest))
      } catch (error) {
        if (!isBusy(error) || performance.now() >= until) return
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, EXIT_PAUSE_MS)
      }
    }
  }

  #send(): void {
    if (this.#sending === null) {
      if (this.#waiting === '') return
      this.#sending = Buffer.from(this.#waiting)
      this.#waiting = ''
    }
    this.#isWriting = true
    const length = Math.min(this.#sending.length, MAX_WRITE)
    write(this.#options.fd, this.#sending, 0, length, (error, written) => {
      this.#isWriting = false
      if (error) this.#failed(error)
      else this.#written(written)
    })
  }

  #written(bytes: number): void {
    this.#busyRetryMs = MIN_BUSY_RETRY_MS
    const left = this.#sending?.subarray(bytes)
    this.#sending = left === undefined || left.length === 0 ? null : left
    if (this.#lost > 0 && this.#sending === null) {
      // Behind the last line that was kept.
      this.#waiting += this.#options.lostLine(this.#lost)
      this.#lost = 0
    }
    this.#send()
  }

  #failed(error: NodeJS.ErrnoException): void {
    if (error.code === 'EPIPE') {
      this.#isGone = true
      this.#sending = null
      this.#waiting = ''
      return
    }
    this.#retry = setTimeout(
      () => {
        this.#retry = undefined
        this.#send()
      },
      isBusy(error) ? this.#busyRetryMs : RETRY_MS,
    )
    this.#retry.unref()
    this.#busyRetryMs = Math.min(2 * this.#busyRetryMs, MAX_BUSY_RETRY_MS)
  }
}

function isBusy(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EAGAIN'
}
