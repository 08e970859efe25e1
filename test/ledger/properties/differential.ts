import fc from 'fast-check'
import { expect } from 'vitest'
import { OjsError } from '../../../src/errors.ts'
import type { JobRow, JobState, NewJob } from '../../../src/job/job.ts'
import type { ReportedEvent, Said } from '../../../src/job/native/report.ts'
import { ANY_JOB, type JobFilter } from '../../../src/job/search/filter.ts'
import type { JobAction } from '../../../src/job/steer.ts'
import type { FailureChange } from '../../../src/ledger/leases.ts'
import type { Ledger } from '../../../src/ledger/ledger.ts'
import type { DeadMessage } from '../../../src/ledger/native.ts'
import { inOrder } from '../../support/broker/order.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import { askedBy, jobMessage, type LedgerHarness, NOW, settleLazily } from '../harness.ts'

/** One call of the contract, on one of few jobs, mostly with the numbers that its row has. */
export interface Call {
  verb: keyof typeof VERBS
  job: number
  other: number
  /** Added to the right attempt. */
  attemptOff: number
  /** Subtracted from the row's generation. */
  generationOff: number
  /** Subtracted from the row's nonce. */
  nonceOff: number
  /** Chooses among variants of the call. */
  n: number
  /** In one turn of the event loop with the call before. */
  joins: boolean
  /** How much later than the call before, in ms. */
  later: number
}

const JOBS = 4
const QUEUES = ['alpha', 'beta']
const QUEUE = (n: number) => QUEUES[n % 2] ?? ''
const WORKERS = ['worker-1', 'native-1', null]
const MANY = 1_000

/** What a call is given: the row of its job as this ledger has it, and the numbers that go with it. */
interface Given {
  ledger: Ledger
  call: Call
  now: number
  id: string
  other: string
  row: JobRow | null
  lease: { id: string; generation: number; attempt: number }
  /** The numbers of a job message. */
  next: { generation: number; attempt: number }
  nonce: number
  worker: string | null
  cause: { requestId: string; principal: string }
}

/** As the gateway writes it: the code comes first, and it is found by that. */
const FAILED = { error: '{"code":"e","type":"t"}', errors: '[{"attempt":1,"code":"e"}]' }
const RETRY = { to: 'retryable', delayMs: 250, isMessageBack: false } as const
const FAILURES: readonly ((now: number) => FailureChange)[] = [
  (now) => ({ ...FAILED, now, ...RETRY, dueAt: now + 250, retryQueueMs: 250 }),
  (now) => ({ ...FAILED, now, ...RETRY, dueAt: now + 250, retryQueueMs: null }),
  (now) => ({
    ...FAILED,
    now,
    ...RETRY,
    dueAt: now + 250,
    retryQueueMs: null,
    isMessageBack: true,
  }),
  (now) => ({ ...FAILED, now, to: 'available' }),
  (now) => ({ ...FAILED, now, to: 'discarded', isDeadLetter: true, copy: 'nack' }),
  (now) => ({ ...FAILED, now, to: 'discarded', isDeadLetter: false, copy: 'publish' }),
]

const FAILURE = { code: 'e', type: 'e', message: 'm', retryable: true }
const SAID: readonly Said[] = [
  { event: 'started' },
  { event: 'completed', result: '{"r":1}', elapsedMs: 3 },
  { event: 'failed', failure: FAILURE, outcome: null },
  {
    event: 'failed',
    failure: FAILURE,
    outcome: { decision: 'retry', delay_ms: 250, rung_ms: 250 },
  },
  { event: 'failed', failure: FAILURE, outcome: { decision: 'retry', delay_ms: 250 } },
  { event: 'failed', failure: FAILURE, outcome: { decision: 'discard' } },
  { event: 'released', messageAttempt: 1 },
  { event: 'expired' },
  { event: 'dropped' },
]

const LISTED_WHEN_EXPIRED = '{"args":[],"retry":{"on_exhaustion":"dead_letter"}}'
const NOT_LISTED = '{"args":[],"retry":{"on_exhaustion":"discard"}}'

function jobOf({ call, id, now }: Given): NewJob {
  const { n, job } = call
  const starts: NewJob['start'][] = [
    { state: 'available' },
    { state: 'available' },
    { state: 'scheduled', dueAt: now + 20 },
    { state: 'pending', dueAt: n % 2 === 0 ? null : now + 20 },
  ]
  return newJob({
    id,
    queue: QUEUE(job),
    type: n % 3 === 0 ? 'mail' : 'pdf',
    priority: (n % 5) - 2,
    maxAttempts: n % 4,
    createdAt: now,
    timeoutMs: n % 3 === 1 ? 500 : 0,
    visibilityTimeoutMs: n % 5 === 0 ? 700 : null,
    expiresAt: n % 7 === 0 ? now + 900 : null,
    envelope: [LISTED_WHEN_EXPIRED, NOT_LISTED, '{"priority":1,"args":["ä"]}'][n % 3] ?? '',
    carry: n % 4 === 1 ? { tags: ['t'], resultTtlMs: n % 8 === 1 ? 0 : 300 } : null,
    start: starts[n % starts.length] ?? { state: 'available' },
    unique: n % 5 === 2 ? uniqueOf(n) : null,
  })
}

/** Some requests have an idempotency key, of few. */
function requestOf({ n }: Call) {
  const request = { key: `key-${n % 3}`, fingerprint: `${n % 2}` }
  return n % 6 === 1 ? { request } : {}
}

const CONFLICTS = ['reject', 'ignore', 'replace', 'replace_except_schedule'] as const

function uniqueOf(n: number): NewJob['unique'] {
  const states: JobState[] = ['available', 'scheduled', 'pending', 'active', 'retryable']
  return {
    key: `${n % 2}`.repeat(64),
    states: n % 3 === 0 ? [...states, 'completed'] : states,
    periodMs: n % 4 === 0 ? 500 : null,
    onConflict: CONFLICTS[n % CONFLICTS.length] ?? 'reject',
  }
}

function messageOf(given: Given) {
  const { id, next, call } = given
  const reportedError = () => (call.n % 4 === 0 ? { code: 'r', message: 'reported' } : null)
  return jobMessage(id, {
    ...next,
    adopt: () => jobOf(given),
    isHeldDelivery: call.n % 6 === 0,
    ...(call.n % 5 === 0 && { queue: QUEUE(call.job) }),
    ...(call.n % 3 === 0 && { reportedError }),
  })
}

function deadOf(given: Given): DeadMessage {
  const { call } = given
  return {
    ...messageOf(given),
    describe: () => ({ error: '1', errors: '[1]', isDeadLetter: call.n % 2 === 0 }),
    isExpired: call.n % 3 === 0,
    wasInQueue: call.n % 5 === 0,
  }
}

function eventsOf({ call, id, other, lease, now }: Given): ReportedEvent[] {
  const said = SAID[call.n % SAID.length] ?? { event: 'started' }
  const worker = { workerId: call.n % 4 === 3 ? 'native-2' : 'native-1' }
  const attempt = lease.attempt + (call.n % 2)
  const ofQueue = call.n % 11 === 0 ? QUEUE(call.job + 1) : null
  const event = { ...worker, id, generation: lease.generation, attempt, said, ofQueue }
  const start: ReportedEvent = { ...event, said: { event: 'started' } }
  const adopting = { ...event, adopt: () => newJob({ id, queue: QUEUE(call.job), createdAt: now }) }
  const elsewhere: ReportedEvent = { ...start, id: other, generation: null, attempt: 1 }
  return [[event], [start, event], [adopting], [event, elsewhere], [event, event]][call.n % 5] ?? []
}

const STATES: readonly JobState[] = [
  'available',
  'scheduled',
  'retryable',
  'completed',
  'discarded',
]
const STEERED: readonly JobState[] = [
  ...['available', 'scheduled', 'pending', 'active', 'retryable'],
  ...['completed', 'cancelled', 'discarded'],
] as readonly JobState[]

function steering({ n }: Call) {
  const action: JobAction = (['retry', 'cancel', 'delete'] as const)[n % 3] ?? 'retry'
  const deadLettersOnly = n % 5 === 0
  return { action, states: STEERED, deadLettersOnly, sparesRetried: n % 2 === 0, scope: null }
}

const CUTOFFS = (at: number) => ({
  completed: at,
  cancelled: at,
  discarded: at,
  withdrawn: at - 500,
  deadLetters: at,
})

/** Pages are in an order that the contract leaves open where times are equal. */
const byId = <T>(page: readonly T[], idOf: (one: T) => string): T[] =>
  page.toSorted((a, b) => idOf(a).localeCompare(idOf(b)))

const TERMS = ({ now, worker, cause, call }: Given) => ({
  ...{ now, wall: now, workerId: worker, cause, defaultLeaseMs: 400 },
  leaseMs: call.n % 3 === 0 ? 300 : null,
})

const FENCE = ({ lease, worker, call }: Given) => ({
  ...(call.n % 3 !== 0 && { attempt: lease.attempt }),
  ...(call.n % 4 !== 0 && { generation: lease.generation }),
  ...(call.n % 2 === 0 && { workerId: worker }),
})

const NOTE_FENCE = (given: Given) => ({
  ...FENCE(given),
  ofQueue: given.call.n % 6 === 0 ? QUEUE(given.call.job + 1) : null,
})

interface Verb {
  /** How often it is drawn. */
  weight?: number
  /** In a turn of its own: it takes several writes, or is lazy, so what comes between them is open. */
  isAlone?: boolean
  run(given: Given): unknown
}

const verbs = <T extends Record<string, Verb>>(all: T): T => all

const VERBS = verbs({
  insert: {
    weight: 6,
    run: (g) => {
      const retryOf = g.call.n % 9 === 0 ? g.other : undefined
      return g.ledger.insert(jobOf(g), g.now, { ...requestOf(g.call), cause: g.cause, retryOf })
    },
  },
  insertAll: {
    weight: 2,
    run: (g) => {
      const own = jobOf(g)
      const second = newJob({ id: g.other, queue: QUEUE(g.call.other), createdAt: g.now })
      const jobs = g.id === g.other ? [own] : [own, second]
      return g.ledger.insertAll(jobs, g.now, { ...requestOf(g.call), cause: g.cause })
    },
  },
  adoptSchedule: { run: (g) => g.ledger.adoptSchedule(jobOf(g), g.now) },
  confirmed: {
    weight: 3,
    isAlone: true,
    run: async (g) => {
      if (g.row?.state === 'discarded') g.ledger.copyConfirmed(g.id, g.nonce)
      else g.ledger.confirmed(g.nonce)
      await settleLazily(g.ledger)
    },
  },
  withdraw: {
    run: (g) => g.ledger.withdraw(g.id, g.nonce, requestOf(g.call).request?.key),
  },
  withdrawAll: {
    run: (g) => g.ledger.withdrawAll([g.lease], requestOf(g.call).request?.key),
  },
  pause: { run: (g) => g.ledger.pauses.pause(QUEUE(g.call.job), g.now) },
  resume: { weight: 2, run: (g) => g.ledger.pauses.resume(QUEUE(g.call.job), g.now) },
  pruneKeys: { isAlone: true, run: (g) => g.ledger.idempotency.prune(g.now, MANY) },
  activate: { run: (g) => g.ledger.activate(g.id, g.now, g.now, g.cause) },
  promote: {
    weight: 3,
    isAlone: true,
    run: async (g) => byId(await g.ledger.promote(g.now, g.now, MANY), ({ id }) => id),
  },
  sendAhead: { isAlone: true, run: (g) => g.ledger.sendAhead(g.now + 50, MANY) },
  expire: {
    isAlone: true,
    run: async (g) => {
      const expired = await g.ledger.expire({ now: g.now, wall: g.now, limit: MANY })
      return byId(expired, ({ job }) => job.id)
    },
  },
  claim: {
    weight: 8,
    run: (g) => {
      const message = messageOf(g)
      return g.ledger.claim(g.call.n % 5 === 4 ? [message, message] : [message], TERMS(g))
    },
  },
  release: {
    weight: 2,
    run: (g) => {
      const messageAttempt = [g.lease.attempt, null, 1][g.call.n % 3] ?? null
      return g.ledger.release(g.id, { ...FENCE(g), messageAttempt, now: g.now, cause: g.cause })
    },
  },
  complete: {
    weight: 3,
    run: (g) => {
      const result = g.call.n % 2 === 0 ? '{"r":2}' : null
      return g.ledger.complete(g.id, FENCE(g), { now: g.now, result, cause: g.cause })
    },
  },
  fail: {
    weight: 5,
    run: (g) => {
      const change = FAILURES[g.call.n % FAILURES.length]?.(g.now) ?? null
      return g.ledger.fail(g.id, FENCE(g), () => (g.call.n % 13 === 0 ? null : change))
    },
  },
  endOverdue: {
    weight: 2,
    isAlone: true,
    run: async (g) => {
      const which = g.call.n % 2 === 0 ? 'all' : 'not native'
      const change = FAILURES[g.call.n % FAILURES.length]?.(g.now) ?? null
      const ended = await g.ledger.endOverdue({ now: g.now, limit: MANY, which }, () => change)
      return byId(ended, (one) => (one.outcome === 'ended' ? one.job.id : one.row.id))
    },
  },
  extend: {
    run: (g) => {
      const leaseMs = g.call.n % 2 === 0 ? 900 : null
      const beat = { now: g.now, workerId: g.worker ?? 'worker-1', leaseMs }
      return g.ledger.extend([g.id, g.other], { ...beat, ...(g.call.n % 3 === 0 && g.lease) })
    },
  },
  handOver: { run: (g) => g.ledger.handOver([g.lease]) },
  handBack: { run: (g) => g.ledger.handBack([g.lease]) },
  extendLeases: { isAlone: true, run: (g) => g.ledger.extendLeases(g.now) },
  boundWaits: { isAlone: true, run: (g) => g.ledger.boundWaits(g.now - 5_000) },
  boundEnds: { isAlone: true, run: (g) => g.ledger.boundEnds(g.now - 5_000, MANY) },
  discardDead: {
    weight: 3,
    run: (g) => g.ledger.discardDead(deadOf(g), { now: g.now, wall: g.now }),
  },
  cancel: { weight: 2, run: (g) => g.ledger.cancel(g.id, g.now, g.cause) },
  cancelAny: {
    weight: 2,
    run: (g) => {
      const isScoped = g.call.n % 3 === 0
      return g.ledger.cancelAny(g.id, QUEUE(g.call.n), g.now, isScoped, g.cause)
    },
  },
  prune: { weight: 2, isAlone: true, run: (g) => g.ledger.prune(CUTOFFS(g.now), g.now, MANY) },
  pruneDeadLetters: {
    isAlone: true,
    run: (g) => g.ledger.pruneDeadLetters(QUEUE(g.call.job), 0, g.now, MANY),
  },
  pruneResults: { isAlone: true, run: (g) => g.ledger.pruneResults(g.now, MANY) },
  swept: {
    run: (g) => {
      const queue = QUEUE(g.call.job)
      const mark = g.ledger.known.staleCopies().get(queue) ?? 0
      return g.ledger.swept(queue, mark - (g.call.n % 3 === 0 ? 1 : 0))
    },
  },
  messageReturned: {
    weight: 2,
    isAlone: true,
    run: async (g) => {
      const attempt = g.call.n % 2 === 0 ? undefined : g.lease.attempt
      g.ledger.messageReturned(g.id, g.lease.generation, attempt)
      await settleLazily(g.ledger)
    },
  },
  rearm: { isAlone: true, run: (g) => g.ledger.rearm(QUEUE(g.call.job), g.now) },
  rearmRetryQueue: {
    isAlone: true,
    run: (g) => g.ledger.rearmRetryQueue({ queue: QUEUE(g.call.job), delayMs: 250 }, g.now),
  },
  applyReports: {
    weight: 8,
    run: (g) => {
      const terms = { now: g.now, defaultLeaseMs: 400, random: () => 0.5, cause: g.cause }
      return g.ledger.applyReports(eventsOf(g), terms)
    },
  },
  beatNative: {
    weight: 3,
    run: (g) => {
      const beat = { now: g.now, wall: g.now, workerId: 'native-1', defaultLeaseMs: 400 }
      const leaseMs = g.call.n % 3 === 0 ? 800 : null
      const ofQueue = g.call.n % 7 === 0 ? QUEUE(g.call.job + 1) : null
      return g.ledger.beatNative([g.id, g.other], { ...beat, leaseMs, ofQueue, cause: g.cause })
    },
  },
  claimNative: {
    weight: 3,
    run: (g) => {
      const { n } = g.call
      const question = askedBy(
        n % 2 === 0 ? 'native-1' : 'native-2',
        { id: g.id, ...g.next },
        {
          isAgain: n % 3 === 0,
          isKeyed: n % 4 === 0,
          ofQueue: n % 9 === 0 ? QUEUE(g.call.job + 1) : null,
          adopt: n % 5 === 0 ? () => jobOf(g) : undefined,
          isHeldHere: () => n % 7 === 0,
        },
      )
      return g.ledger.claimNative(question, { ...TERMS(g), workerId: question.workerId })
    },
  },
  prioritize: {
    run: (g) => {
      const mayReplace = g.call.n % 3 !== 0
      const terms = { now: g.now, cause: g.cause, mayReplace }
      return g.ledger.prioritize(g.id, (g.call.n % 7) - 3, terms)
    },
  },
  purge: {
    run: (g) => g.ledger.purge([g.id, g.other], { states: STATES, now: g.now, cause: g.cause }),
  },
  act: {
    weight: 4,
    run: (g) => {
      const terms = { now: g.now, wall: g.now, cause: g.cause, maxMs: 60_000 }
      const isAtomic = g.call.n % 4 === 0
      const ids = g.id === g.other ? [g.id] : [g.id, g.other]
      return g.ledger.bulk.act(ids, steering(g.call), { ...terms, isAtomic })
    },
  },
  report: {
    weight: 2,
    run: (g) => {
      const { n } = g.call
      const said = { progress: n % 3 === 0 ? null : (n % 20) / 10, data: n % 2 ? '{}' : null }
      const checkpoint = n % 4 === 0 ? `{"at":${n}}` : null
      const report = { ...said, message: n % 5 === 0 ? 'm' : null, checkpoint, now: g.now }
      return g.ledger.progress.report(g.id, NOTE_FENCE(g), report)
    },
  },
  save: {
    weight: 2,
    run: (g) => {
      const fence = { ...NOTE_FENCE(g), waitingToo: g.call.n % 2 === 0 }
      return g.ledger.checkpoints.save(g.id, fence, { now: g.now, state: `${g.call.n}` })
    },
  },
  remove: { run: (g) => g.ledger.checkpoints.remove(g.id) },
  clearHistory: { run: (g) => g.ledger.history.clear(g.id) },
  recordRetryQueue: {
    run: (g) => g.ledger.recordRetryQueue({ queue: QUEUE(g.call.job), delayMs: 100 * g.call.n }),
  },
  recordQueue: { run: (g) => g.ledger.recordQueue(`queue-${g.call.n % 4}`, g.now) },
  begin: {
    isAlone: true,
    run: (g) =>
      g.ledger.bulk.begin({
        ...{ id: `operation-${g.call.n % 3}-${g.now}`, action: steering(g.call).action },
        ...{ asked: '{}', filter: ANY_JOB, steering: steering(g.call), cause: g.cause },
        ...{ limit: g.call.n % 2 === 0 ? null : 1, createdAt: g.now },
        expected: { count: 2, isBound: false },
      }),
  },
  advance: {
    isAlone: true,
    weight: 2,
    run: async (g) => {
      const [operation] = await g.ledger.read.bulk.running()
      if (operation === undefined) return null
      const found = [g.id, g.other].map((id, i) => ({ id, place: [g.now, i] as const }))
      const next = g.call.n % 3 === 0 ? null : ([g.now, 9] as const)
      const from = g.call.n % 5 === 0 ? null : operation.place
      const terms = { now: g.now, wall: g.now, cause: g.cause, maxMs: 60_000 }
      return await g.ledger.bulk.advance(operation.id, { from, found, next }, terms)
    },
  },
  stop: {
    isAlone: true,
    run: async (g) => {
      const [operation] = await g.ledger.read.bulk.running()
      return await g.ledger.bulk.stop(operation?.id ?? 'none', g.now)
    },
  },
  reopen: { isAlone: true, run: () => 'reopened' },
})

const DRAWN = (Object.entries(VERBS) as [Call['verb'], Verb][]).flatMap(([verb, { weight = 1 }]) =>
  Array<Call['verb']>(weight).fill(verb),
)

const call: fc.Arbitrary<Call> = fc.record({
  verb: fc.constantFrom(...DRAWN),
  job: fc.nat(JOBS - 1),
  other: fc.nat(JOBS - 1),
  attemptOff: fc.constantFrom(0, 0, 0, 0, 0, -1, 1, 2),
  generationOff: fc.constantFrom(0, 0, 0, 0, 0, 1, -1),
  nonceOff: fc.constantFrom(0, 0, 0, 1),
  n: fc.nat(999),
  joins: fc.boolean(),
  later: fc.constantFrom(0, 0, 1, 30, 250, 1_000, 40_000),
})

/** Histories of so many calls at least. */
export function histories(calls: number): fc.Arbitrary<Call[]> {
  return fc.array(call, { minLength: calls, maxLength: calls + 20, size: 'max' })
}

/** Plays one history on two ledgers, and compares what they answer and what they keep. */
export class Twins {
  readonly #first: LedgerHarness
  readonly #second: LedgerHarness
  readonly #aliases = [new Aliases(), new Aliases()] as const
  readonly #ids = Array.from({ length: JOBS }, (_, n) => `job-${n}`)
  #now = NOW

  constructor(first: LedgerHarness, second: LedgerHarness) {
    this.#first = first
    this.#second = second
  }

  async play(calls: readonly Call[]): Promise<void> {
    for (const turn of turnsOf(calls)) {
      this.#now += turn[0]?.later ?? 0
      const [one, other] = [
        await this.#answers(this.#first, turn),
        await this.#answers(this.#second, turn),
      ]
      this.#compare(one, other, turn)
      await this.#compareRows(turn)
    }
    await this.#compareAll()
  }

  /** What each call of the turn said, or how it failed. */
  async #answers(harness: LedgerHarness, turn: readonly Call[]): Promise<unknown[]> {
    if (turn[0]?.verb === 'reopen') await harness.reopen()
    const { ledger } = harness
    // All that the calls are given is read before the first of them, so that they are of one turn.
    const given = await Promise.all(turn.map((call) => this.#given(ledger, call)))
    const said = given.map(async (one) => {
      const verb: Verb = VERBS[one.call.verb]
      return await verb.run(one)
    })
    const settled = await Promise.allSettled(said)
    return settled.map((one) => (one.status === 'fulfilled' ? one.value : failureOf(one.reason)))
  }

  async #given(ledger: Ledger, call: Call): Promise<Given> {
    const id = this.#ids[call.job] ?? ''
    const row = await ledger.read.find(id)
    const generation = Math.max(0, (row?.generation ?? 0) - call.generationOff)
    const attempt = Math.max(1, (row?.attempt ?? 0) + call.attemptOff)
    return {
      ...{ ledger, call, id, row, now: this.#now, other: this.#ids[call.other] ?? '' },
      lease: { id, generation, attempt },
      next: { generation, attempt: row?.state === 'active' ? attempt : attempt + 1 },
      nonce: (row?.outbox ?? 0) - call.nonceOff,
      worker: WORKERS[call.n % WORKERS.length] ?? null,
      cause: { requestId: `req-${call.n}`, principal: 'ops' },
    }
  }

  /** The rows that the turn is about, and the counts. */
  async #compareRows(turn: readonly Call[]): Promise<void> {
    const ids = new Set(turn.flatMap(({ job, other }) => [job, other]))
    const names = this.#ids.filter((_, i) => ids.has(i))
    const [one, other] = [
      await rowsOf(this.#first.ledger, names),
      await rowsOf(this.#second.ledger, names),
    ]
    this.#compare(one, other, turn)
  }

  async #compareAll(): Promise<void> {
    const [one, other] = [
      await allOf(this.#first.ledger, this.#ids, this.#now),
      await allOf(this.#second.ledger, this.#ids, this.#now),
    ]
    this.#compare(one, other, 'the end')
    // A history that was forgotten is found wrong in both.
    expect(inOrder(await this.#second.inspect())).toEqual(inOrder(await this.#first.inspect()))
  }

  #compare(one: unknown, other: unknown, what: unknown): void {
    const [first, second] = this.#aliases
    expect(second.replace(other), JSON.stringify(what)).toEqual(first.replace(one))
  }
}

function turnsOf(calls: readonly Call[]): Call[][] {
  const turns: Call[][] = []
  let isOpen = false
  for (const call of calls) {
    const { isAlone = false }: Verb = VERBS[call.verb]
    const last = turns.at(-1)
    if (last && isOpen && call.joins && !isAlone && last.length < 4) last.push(call)
    else turns.push([call])
    isOpen = !isAlone
  }
  return turns
}

function failureOf(error: unknown) {
  return error instanceof OjsError ? { code: error.code, message: error.message } : error
}

async function rowsOf({ read, known }: Ledger, ids: readonly string[]): Promise<unknown> {
  const counts = QUEUES.map((queue) => [
    ...[known.counts(queue), known.claimable(queue), known.held(queue)],
    known.deadLetterCount(queue),
  ])
  const rows = await Promise.all(
    ids.map(async (id) => ({
      row: await read.find(id),
      progress: await read.progress.find(id),
      checkpoint: await read.checkpoints.find(id),
    })),
  )
  return { counts, rows, stale: inOrder(known.staleCopies().keys()) }
}

const FILTERS: readonly Partial<JobFilter>[] = [
  {},
  { states: ['available', 'retryable'] },
  { queues: [QUEUE(0)], types: [{ text: 'm', isPrefix: true }] },
  { isDeadLetter: true },
  { errorCode: 'e' },
  { workerId: 'native-1', priority: 0 },
  { ended: { from: NOW, until: NOW + 60_000 } },
]
const ORDERS = ['created_at', 'scheduled_at', 'priority', 'updated_at'] as const

/** What is found, in the order of the lists where that is not open. */
async function searchesOf({ read }: Ledger, now: number): Promise<object> {
  const oldest = await read.search.oldest(QUEUES, now, now)
  const lists = FILTERS.map(async (given, i) => {
    const filter = { ...ANY_JOB, ...given }
    const order = ORDERS[i % ORDERS.length] ?? 'created_at'
    const page = { order, isAscending: i % 2 === 0, after: null, offset: 0, limit: MANY }
    const { jobs } = await read.search.page(filter, { ...page, isWhole: i % 3 === 0 })
    const { found } = await read.search.ids(filter, null, MANY)
    return {
      jobs,
      count: await read.search.count(filter, MANY),
      ids: found.map(({ id }) => id),
    }
  })
  return { oldest, lists: await Promise.all(lists) }
}

async function allOf(ledger: Ledger, ids: readonly string[], now: number): Promise<unknown> {
  const { read, known } = ledger
  const { cancelled, truncated } = await read.tombstones(QUEUES, MANY)
  return {
    rows: await rowsOf(ledger, ids),
    histories: await Promise.all(ids.map((id) => read.history.find(id))),
    standings: await Promise.all(ids.map((id) => read.standing(id))),
    owed: await read.outboxPage(0, MANY),
    owedMessages: await read.owedMessages(MANY),
    cancelled: byId(cancelled, ({ id }) => id),
    truncated,
    tombstoned: await Promise.all(ids.map((id) => read.isTombstoned(id, QUEUE(0)))),
    active: await read.activeByWorker(MANY),
    leased: await Promise.all(
      ['worker-1', 'native-1'].map(async (worker) =>
        inOrder((await read.leasedTo(worker, 0, MANY)).ids),
      ),
    ),
    operations: await read.bulk.list({ limit: MANY, offset: 0 }),
    dead: await read.deadLetterStats([]),
    ...(await searchesOf(ledger, now)),
    paused: QUEUES.map((queue) => known.pauses.since(queue)),
    remembered: await Promise.all([0, 1, 2].map((n) => read.idempotency.find(`key-${n}`, now))),
    queues: inOrder(known.queues().map(({ name }) => name)),
    retryQueues: byId(known.retryQueues(), (one) => `${one.queue} ${one.delayMs}`),
  }
}

/** Nonces are numbers of the ledger's own choice; the order in which they first appear is not. */
class Aliases {
  readonly #names = new Map<number, string>()

  /** The value with an alias in the place of each nonce. */
  replace(value: unknown): unknown {
    if (Array.isArray(value)) return value.map((one) => this.replace(one))
    if (value instanceof Map)
      return new Map([...value].map(([key, one]) => [key, this.replace(one)]))
    if (value instanceof Error) return failureOf(value)
    if (typeof value !== 'object' || value === null) return value
    const members = Object.entries(value).toSorted(([a], [b]) => a.localeCompare(b))
    return Object.fromEntries(
      members.map(([name, one]) => [
        name,
        name === 'outbox' && typeof one === 'number' ? this.#nameOf(one) : this.replace(one),
      ]),
    )
  }

  #nameOf(nonce: number): string {
    const name = this.#names.get(nonce) ?? `nonce ${this.#names.size + 1}`
    this.#names.set(nonce, name)
    return name
  }
}
