/** The calls that are about jobs. */
import type { JobState, NewJob } from '../../../src/job/job.ts'
import type { ReportedEvent, Said } from '../../../src/job/native/report.ts'
import { ANY_JOB } from '../../../src/job/search/filter.ts'
import type { JobAction } from '../../../src/job/steer.ts'
import type { FailureChange } from '../../../src/ledger/leases.ts'
import type { DeadMessage } from '../../../src/ledger/native.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import { askedBy, jobMessage, settleLazily } from '../harness.ts'
import { byId, type Call, type Given, MANY, NO_WORKFLOW, QUEUE, verbs } from './call.ts'
import { carryOf, requestOf, uniqueOf } from './made.ts'

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
    carry: carryOf(n),
    start: starts[n % starts.length] ?? { state: 'available' },
    unique: n % 5 === 2 ? uniqueOf(n) : null,
  })
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

/** Was it pushed? A job that the ledger has made is never withdrawn. */
const isOwn = ({ id }: Given) => id.startsWith('job-')

export const JOB_VERBS = verbs({
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
    run: (g) => isOwn(g) && g.ledger.withdraw(g.id, g.nonce, requestOf(g.call).request?.key),
  },
  withdrawAll: {
    run: (g) => isOwn(g) && g.ledger.withdrawAll([g.lease], requestOf(g.call).request?.key),
  },
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
  boundWaits: { isAlone: true, atStart: true, run: (g) => g.ledger.boundWaits(g.now - 5_000) },
  boundEnds: {
    isAlone: true,
    run: async (g) => {
      // SQLite bounds those of steps at once, PostgreSQL when their workflow goes.
      if (g.workflow === NO_WORKFLOW) return await g.ledger.boundEnds(g.now - 5_000, MANY)
      return 'not with workflows'
    },
  },
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
      const generations = g.call.n % 5 < 3 ? new Map([[g.id, g.call.n % 5]]) : undefined
      const terms = { ...beat, leaseMs, ofQueue, generations, cause: g.cause }
      return g.ledger.beatNative([g.id, g.other], terms)
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
          isRepeated: n % 5 === 0,
          areReportsOut: n % 11 === 0,
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
})
