import { closeSync, openSync, readSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

/** One JSON line of the gateway's log. */
export interface LogLine {
  readonly level: string
  readonly msg: string
  /** ISO 8601; empty in a line that is no JSON, such as a stack trace. */
  readonly time: string
  readonly [field: string]: unknown
}

const KEPT = 2_000
/** Shared by all log tails: a new buffer every 10 ms would be work for the garbage collector. */
const CHUNK = Buffer.allocUnsafeSlow(1 << 20)
const LOOK_AGAIN_MS = 10

/**
 * The log of a gateway, read from the file that its stdout goes to. It is a file and not a pipe, so that what
 * was written before a `kill -9` can be read, and a busy reader never slows the gateway down. Keeps only the
 * newest lines, and none of the several lines per job (`job.*`).
 */
export class LogTail {
  readonly #path: string
  readonly #lines: LogLine[] = []
  readonly #decoder = new TextDecoder()
  #position = 0
  #rest = ''

  constructor(path: string) {
    this.#path = path
  }

  lines(): readonly LogLine[] {
    this.#read()
    return this.#lines
  }

  /** The newest line with this message, written before `before` (ms since the epoch). */
  last(msg: string, before = Number.POSITIVE_INFINITY): LogLine | undefined {
    return this.lines().findLast((line) => line.msg === msg && Date.parse(line.time) <= before)
  }

  /** The next line for which `wanted` is true; lines that exist already do not count. */
  async next(wanted: (line: LogLine) => boolean, waiting: Waiting): Promise<LogLine> {
    let seen = this.lines().at(-1)
    const deadline = Date.now() + waiting.timeoutMs
    for (;;) {
      const lines = this.lines()
      const from = seen === undefined ? 0 : lines.lastIndexOf(seen) + 1
      const found = lines.slice(from).find(wanted)
      if (found) return found
      seen = lines.at(-1)
      const ended = waiting.ended?.()
      if (ended || Date.now() > deadline) {
        const why = ended ?? `nothing within ${waiting.timeoutMs} ms`
        throw new Error(`waiting for ${waiting.what}: ${why}\n${this.tail()}`)
      }
      await sleep(LOOK_AGAIN_MS)
    }
  }

  /** The end of the log as text, for error messages. */
  tail(count = 15): string {
    const lines = this.lines().filter((line) => line.level !== 'debug')
    return lines
      .slice(-count)
      .map((line) => JSON.stringify(line))
      .join('\n')
  }

  #read(): void {
    const file = openSync(this.#path, 'r')
    try {
      for (;;) {
        const bytes = readSync(file, CHUNK, 0, CHUNK.length, this.#position)
        if (bytes === 0) break
        this.#position += bytes
        this.#take(this.#decoder.decode(CHUNK.subarray(0, bytes), { stream: true }))
      }
    } finally {
      closeSync(file)
    }
  }

  #take(text: string): void {
    const lines = (this.#rest + text).split('\n')
    this.#rest = lines.pop() ?? ''
    for (const line of lines) {
      // These lines are not parsed: under load they are nine of ten.
      if (line !== '' && !line.includes('"msg":"job.')) this.#lines.push(parse(line))
    }
    if (this.#lines.length > KEPT) this.#lines.splice(0, this.#lines.length - KEPT)
  }
}

export interface Waiting {
  what: string
  timeoutMs: number
  /** Why there will be no more lines; undefined while there may be some. */
  ended?: () => string | undefined
}

function parse(line: string): LogLine {
  try {
    return { level: '', msg: '', time: '', ...(JSON.parse(line) as object) }
  } catch {
    return { level: 'raw', msg: line, time: '' }
  }
}
