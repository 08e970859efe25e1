/** Writes log lines to a file descriptor without blocking, and counts those that are lost. */
import { write, writeSync } from 'node:fs'

/** In characters: some 60,000 lines. */
const MAX_WAITING = 16 * 1024 * 1024
/** In bytes: the capacity of a pipe. At the end of the process, the result of a pending write is unknown. */
const MAX_WRITE = 65_536
/**
 * Pauses before a failed write is repeated: `BUSY` when a pipe is full, doubling from the minimum to the
 * maximum, `RETRY_MS` after any other error. A reader empties the 64 KiB of a pipe within a few ms; with one
 * fixed, longer pause it would get only 64 KiB per pause.
 */
const MIN_BUSY_RETRY_MS = 1
const MAX_BUSY_RETRY_MS = 100
const RETRY_MS = 1_000
/** The longest that the end of the process waits for a full pipe. */
const EXIT_WAIT_MS = 1_000
const EXIT_PAUSE_MS = 10

export interface LogOutputOptions {
  fd: number
  /** Returns the log line which says that `lines` lines were lost. */
  lostLine(lines: number): string
  maxWaiting?: number
}

/**
 * Writes log lines to a file descriptor without blocking. A line is written as soon as the previous write has
 * returned, so that a `kill -9` loses at most the lines of one write.
 *
 * Not `pino.destination`: there, a full disk causes an uncaught error, after which its exit hook retries for
 * ever and no signal ends the process any more. And its backlog for a reader that does not read is unbounded,
 * or, with `maxLength`, drops lines without saying so.
 */
export class LogOutput {
  readonly #options: LogOutputOptions
  #waiting = ''
  /** The bytes that are not written yet, including those of the write under way. */
  #sending: Buffer | null = null
  #isWriting = false
  #busyRetryMs = MIN_BUSY_RETRY_MS
  #retry: NodeJS.Timeout | undefined
  #lost = 0
  /** The reader of the pipe has closed it (EPIPE). No other reader can open it again. */
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
   * Writes synchronously, as the process ends, what no write has been started for. The operating system
   * finishes the write under way, or not. Gives up when nothing can be written: a log must not keep the
   * process alive.
   */
  flushSync(): void {
    const begun = this.#sending?.subarray(this.#isWriting ? MAX_WRITE : 0)
    let unwritten = Buffer.concat([begun ?? Buffer.alloc(0), Buffer.from(this.#waiting)])
    this.#waiting = ''
    this.#sending = null
    const until = performance.now() + EXIT_WAIT_MS
    while (unwritten.length > 0 && !this.#isGone) {
      try {
        unwritten = unwritten.subarray(writeSync(this.#options.fd, unwritten))
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
      // After the last line that was kept.
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
