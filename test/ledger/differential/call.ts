/** One call of a random history, and what it is given. */
import type { CronEntry } from '../../../src/job/cron/entry.ts'
import type { JobRow } from '../../../src/job/job.ts'
import type { Ledger } from '../../../src/ledger/ledger.ts'

/** One call of the contract, on one of few jobs, mostly with the numbers that its row has. */
export interface Call {
  verb: string
  /** From `JOBS` on: the newest job that the ledger has made by itself, the one before it, and so on. */
  job: number
  other: number
  /** Added to the right attempt. */
  attemptOff: number
  /** Subtracted from the row's generation. */
  generationOff: number
  /** 0: the row's nonce; else none. */
  nonceOff: number
  /** Chooses among variants of the call. */
  n: number
  /** In one turn of the event loop with the call before. */
  joins: boolean
  /** How much later than the call before, in ms. */
  later: number
}

export const JOBS = 4
export const QUEUES = ['alpha', 'beta']
export const QUEUE = (n: number) => QUEUES[n % 2] ?? ''
export const WORKERS = ['worker-1', 'native-1', null]
export const KEY = (n: number) => `concurrent-${n % 2}`
export const ENTRY = (n: number) => `entry-${n % 2}`
export const SCHEMA = (n: number) => `urn:${n % 3}`
export const NO_WORKFLOW = 'none'
export const MANY = 1_000

/** What a call is given: the row of its job as this ledger has it, and the numbers that go with it. */
export interface Given {
  ledger: Ledger
  call: Call
  now: number
  id: string
  other: string
  /** A number that no other call has. */
  fresh: number
  row: JobRow | null
  /** The cron entry of the call. */
  entry: CronEntry | null
  /** One of the newest workflows. */
  workflow: string
  lease: { id: string; generation: number; attempt: number }
  /** The numbers of a job message. */
  next: { generation: number; attempt: number }
  nonce: number
  worker: string | null
  cause: { requestId: string; principal: string }
}

export interface Verb {
  /** How often it is drawn. */
  weight?: number
  /** In a turn of its own: it takes several writes, or is lazy, so what comes between them is open. */
  isAlone?: boolean
  /** Right after a start, as the gateway calls it. */
  atStart?: boolean
  run(given: Given): unknown
}

export const verbs = <T extends Record<string, Verb>>(all: T): T => all

/** Pages are in an order that the contract leaves open where times are equal. */
export const byId = <T>(page: readonly T[], idOf: (one: T) => string): T[] =>
  page.toSorted((a, b) => idOf(a).localeCompare(idOf(b)))
