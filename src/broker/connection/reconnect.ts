/** The backoff of connections and consumers, cut short when the port listens again. */
import { setMaxListeners } from 'node:events'
import { connect as connectTcp } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

const MAX_DELAY_S = 60
const PROBE_TIMEOUT_MS = 1_000

/** Seed 002 §11.3: 1, 2, 4 … 60 s, ±25 %. `attempt` counts from 1. */
export function reconnectDelayMs(attempt: number, random: () => number): number {
  const seconds = Math.min(2 ** (attempt - 1), MAX_DELAY_S)
  return Math.round(seconds * 1000 * jitter(random))
}

/** A consumer that lived this long has recovered from whatever ended the one before. */
const STABLE_MS = 10_000

/**
 * Seed 002 §10.4: "attempting to re-register the consumer after a delay". The delay grows while the consumers
 * keep ending.
 */
export class RestartDelay {
  readonly #random: () => number
  #failures = 0

  constructor(random: () => number) {
    this.#random = random
  }

  /** Milliseconds to wait after a consumer that lived for `livedMs` (0: it was never accepted). */
  after(livedMs: number): number {
    if (livedMs > STABLE_MS) this.#failures = 0
    this.#failures += 1
    return reconnectDelayMs(this.#failures, this.#random)
  }

  /** To be called on a new connection: failures on the old one do not count. */
  forgetFailures(): void {
    this.#failures = 0
  }
}

function jitter(random: () => number): number {
  return 0.75 + random() * 0.5
}

export interface WaitOptions {
  delayMs: number
  /**
   * True when the last attempt got a TCP connection. Then only a port that closes and opens again cuts the
   * wait short, so that a broker that accepts but refuses us is not contacted every second.
   */
  portWasOpen: boolean
  probe: () => Promise<boolean>
  random: () => number
  signal: AbortSignal
}

/**
 * Waits for the backoff, probing the port about once a second, so that service is back within 5 s of a
 * restarted broker listening (a deliberate deviation from the plain backoff of seed 002 §11.3). Resolves to
 * true when the port cut the wait short.
 */
export async function waitToReconnect(options: WaitOptions): Promise<boolean> {
  let left = options.delayMs
  let isOpen = options.portWasOpen
  for (;;) {
    const pause = Math.min(left, 1000 * jitter(options.random))
    await sleep(pause, undefined, { signal: options.signal }).catch(() => {})
    left -= pause
    if (left <= 0 || options.signal.aborted) return false
    const wasOpen = isOpen
    isOpen = await options.probe()
    if (isOpen && !wasOpen) return true
  }
}

/** True when any of the brokers accepts a bare TCP connection. */
export async function isAnyListening(urls: readonly URL[]): Promise<boolean> {
  const answers = await Promise.all(urls.map(isListening))
  return answers.includes(true)
}

export async function areAllListening(urls: readonly URL[]): Promise<boolean> {
  const answers = await Promise.all(urls.map(isListening))
  return !answers.includes(false)
}

function isListening(url: URL): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connectTcp({ host: hostOf(url), port: portOf(url) })
    const end = (answer: boolean) => {
      socket.destroy()
      resolve(answer)
    }
    socket.setTimeout(PROBE_TIMEOUT_MS, () => end(false))
    socket.once('connect', () => end(true))
    socket.on('error', () => end(false))
  })
}

function hostOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$/g, '') || 'localhost'
}

function portOf(url: URL): number {
  return Number(url.port) || (url.protocol === 'amqps:' ? 5671 : 5672)
}

/** False: `work` takes longer than `ms`. Rejects if `work` rejects before. Keeps no process alive. */
export function isInTime(work: Promise<unknown>, ms: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(false), ms).unref()
    work.then(() => resolve(true), reject).finally(() => clearTimeout(timer))
  })
}

const PAUSE_MS = 1_000

/**
 * Pauses before a message that could not be handled is redelivered (as when the ledger is full), or before
 * another attempt at what failed. `stopping` ends the pause at once. Keeps no process alive.
 */
export async function pauseBeforeAgain(stopping: AbortSignal, ms = PAUSE_MS): Promise<void> {
  // Any number of messages may be pausing at the same time.
  setMaxListeners(0, stopping)
  await sleep(ms, undefined, { signal: stopping, ref: false }).catch(() => {})
}
