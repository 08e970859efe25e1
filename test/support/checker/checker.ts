/**
 * The proof of the crash tests: the clients' own record of a run, compared with the ledger and the broker
 * after everything was drained (docs/architecture.md §1, laws 4 and 6).
 */

/** What a producer knows of its job. `unknown`: the connection ended before the answer. */
export type PushOutcome = 'unknown' | 'accepted' | 'refused'

/** What the clients sent and were told, job by job. */
export class Journal {
  readonly pushes = new Map<string, PushOutcome>()
  /** How often a FETCH answer that really arrived handed this job out. */
  readonly executions = new Map<string, number>()
  /** Jobs for which an ACK was sent, and whether one was answered 2xx. */
  readonly acks = new Map<string, boolean>()
  /** How many of its attempts a worker has failed with NACK. */
  readonly fails = new Map<string, number>()
  /** How many of its leases a worker has let run out. */
  readonly abandoned = new Map<string, number>()
  /** When scheduled jobs are due, ms since the epoch. */
  readonly due = new Map<string, number>()
  /** Ids that were pushed as one batch: all of them are stored, or none. */
  readonly batches: (readonly string[])[] = []
  /** Number of jobs that could have been in FETCH answers that never arrived. */
  lostFetchAnswers = 0
  /** Answers that no client should have seen. */
  readonly complaints: string[] = []
  #accepted = 0
  #refused = 0

  pushing(id: string): void {
    this.pushes.set(id, 'unknown')
  }

  pushingBatch(ids: readonly string[]): void {
    this.batches.push(ids)
    for (const id of ids) this.pushing(id)
  }

  pushed(id: string, outcome: PushOutcome): void {
    this.pushes.set(id, outcome)
    if (outcome === 'accepted') this.#accepted++
    if (outcome === 'refused') this.#refused++
  }

  executed(id: string): void {
    const earlyMs = (this.due.get(id) ?? 0) - Date.now()
    if (earlyMs > 0) this.complain(`${id} was executed ${earlyMs} ms before its time`)
    count(this.executions, id)
  }

  /** Recorded when the NACK is sent, because a NACK without an answer may have been applied. */
  failing(id: string): void {
    count(this.fails, id)
  }

  abandon(id: string): void {
    count(this.abandoned, id)
  }

  acking(id: string): void {
    if (!this.acks.has(id)) this.acks.set(id, false)
  }

  acked(id: string): void {
    this.acks.set(id, true)
  }

  complain(text: string): void {
    this.complaints.push(text)
  }

  /** Pushes that were answered 2xx. */
  get accepted(): number {
    return this.#accepted
  }

  get refused(): number {
    return this.#refused
  }

  /** How often a job may be executed without a fault: once, and again after each failure. */
  allowed(id: string): number {
    return 1 + this.endedBadly(id)
  }

  endedBadly(id: string): number {
    return (this.fails.get(id) ?? 0) + (this.abandoned.get(id) ?? 0)
  }
}

function count(counts: Map<string, number>, id: string): void {
  counts.set(id, (counts.get(id) ?? 0) + 1)
}

/** A ledger row, as far as the checks need it. */
export interface LedgerRow {
  readonly id: string
  readonly state: string
  readonly attempt: number
  readonly maxAttempts: number
  readonly result: string | null
  readonly outbox: number | null
  readonly dueAt: number | null
  readonly leaseExpiresAt: number | null
}

/** Law 6: what a fault may cause to run twice, from the gateway's last log line before the fault. */
export interface InFlight {
  readonly publishes: number
  /** Retry publishes whose delivery was not yet acked. */
  readonly retries: number
  readonly leases: number
}

/** All that is known when the run is over and the gateway has been stopped. */
export interface Evidence {
  readonly journal: Journal
  readonly rows: readonly LedgerRow[]
  /** The ledger's own kept counts by state, without `withdrawn`, which is no state of a job. */
  readonly kept: Readonly<Record<string, number>>
  /** Job ids of the job messages in the job queue and its retry queues; one entry per job message. */
  readonly jobMessages: readonly string[]
  readonly inFlight: InFlight
  /** Ms since the epoch, when the rows were read. */
  readonly now: number
}

export interface Verdict {
  readonly pushed: number
  readonly accepted: number
  readonly refused: number
  readonly states: Readonly<Record<string, number>>
  /** NACKs that were sent. */
  readonly failed: number
  /** Jobs that were answered 2xx and do not exist, or will never end. */
  readonly lost: number
  /** Executions beyond one for each job and one for each failure. */
  readonly executedTwice: number
  /** Law 6: `executedTwice` must not exceed this. */
  readonly bound: number
  readonly inFlight: InFlight
  /** Empty when all promises were kept. */
  readonly problems: readonly string[]
}

const PAST_DUE_MS = 60_000
/** The promoter checks every 40 ms, whatever the broker does. */
const PROMOTED_MS = 5_000
const SHOWN = 3
const OVER = new Set(['completed', 'cancelled', 'discarded', 'withdrawn'])

/** The result in the ACK of a job: it shows which job an acknowledgement was for. */
export function resultFor(id: string): { executed: string } {
  return { executed: id }
}

export function check(evidence: Evidence): Verdict {
  const { journal, rows, inFlight } = evidence
  const executedTwice = executedTooOften(journal)
  const bound = inFlight.publishes + inFlight.retries + inFlight.leases
  const lost = [...gone(evidence), ...stuck(evidence)]
  const others = [...keptPromises(evidence), ...leased(evidence), ...retried(evidence)]
  const problems = [
    ...(bound === 0 ? ['nothing was in flight at the fault: it proves nothing'] : []),
    ...(executedTwice > bound
      ? [`${executedTwice} executions too many, but only ${bound} were in flight`]
      : []),
    ...[...lost, ...others].map(problemText),
    ...miscounted(evidence),
    ...journal.complaints.slice(0, SHOWN),
  ]
  return {
    pushed: journal.pushes.size,
    accepted: journal.accepted,
    refused: journal.refused,
    states: countBy(rows),
    failed: sum(journal.fails.values()),
    lost: new Set(lost.flatMap(({ ids }) => ids)).size,
    executedTwice,
    bound,
    inFlight,
    problems: problems.filter((problem) => problem !== ''),
  }
}

function executedTooOften(journal: Journal): number {
  const tooOften = [...journal.executions].map(([id, times]) => times - journal.allowed(id))
  return sum(tooOften.filter((times) => times > 0))
}

function sum(numbers: Iterable<number>): number {
  let total = 0
  for (const number of numbers) total += number
  return total
}

interface Finding {
  readonly what: string
  readonly ids: readonly string[]
}

function isThere(row: LedgerRow): boolean {
  return row.state !== 'withdrawn'
}

function idsOf(rows: readonly LedgerRow[]): string[] {
  return rows.map((row) => row.id)
}

/** 201 means safe (docs/architecture.md, law 4), and a batch is all of its jobs or none. */
function gone({ journal, rows }: Evidence): Finding[] {
  const visible = new Set(idsOf(rows.filter(isThere)))
  const isTorn = (ids: readonly string[]) =>
    ids.some((id) => visible.has(id)) && !ids.every((id) => visible.has(id))
  return [
    {
      what: 'answered 2xx and lost',
      ids: pushedAs(journal, 'accepted').filter((id) => !visible.has(id)),
    },
    {
      what: 'missing of a batch of which others are there',
      ids: journal.batches.filter(isTorn).flatMap((ids) => ids.filter((id) => !visible.has(id))),
    },
  ]
}

function pushedAs(journal: Journal, outcome: PushOutcome): string[] {
  return [...journal.pushes].filter(([, own]) => own === outcome).map(([id]) => id)
}

/** Answers were true: refused jobs do not exist, and acks are kept. */
function keptPromises({ journal, rows }: Evidence): Finding[] {
  const visible = new Map(rows.filter(isThere).map((row) => [row.id, row]))
  const refused = pushedAs(journal, 'refused')
  const done = rows.filter((row) => row.state === 'completed')
  const acknowledged = [...journal.acks].filter(([, answered]) => answered).map(([id]) => id)
  return [
    {
      what: 'refused and there all the same',
      ids: refused.filter((id) => visible.has(id)),
    },
    {
      what: 'refused and executed',
      ids: refused.filter((id) => journal.executions.has(id)),
    },
    {
      what: 'ACK answered 2xx and not completed',
      ids: acknowledged.filter((id) => visible.get(id)?.state !== 'completed'),
    },
    {
      what: 'completed without an ACK of its own',
      ids: idsOf(done.filter((row) => !journal.acks.has(row.id))),
    },
    {
      what: "completed with another job's result",
      ids: idsOf(done.filter((row) => row.result !== JSON.stringify(resultFor(row.id)))),
    },
  ]
}

/**
 * Retry policies count attempts. Each attempt that ended badly must be counted, none that no worker had
 * (except in a FETCH answer that never arrived), and a job with attempts left must go on.
 */
function retried({ journal, rows }: Evidence): Finding[] {
  const own = rows.filter((row) => isThere(row) && journal.pushes.has(row.id))
  const uncounted = own.filter(
    (row) => row.state === 'completed' && row.attempt < journal.allowed(row.id),
  )
  const unseen = (row: LedgerRow) => row.attempt - (journal.executions.get(row.id) ?? 0)
  const unseenAttempts = sum(own.map(unseen).filter((attempts) => attempts > 0))
  const isTooMany = unseenAttempts > journal.lostFetchAnswers
  return [
    { what: 'completed with fewer attempts than were made', ids: idsOf(uncounted) },
    {
      what: `counted for attempts that no worker made (${unseenAttempts} in all)`,
      ids: isTooMany ? idsOf(own.filter((row) => unseen(row) > 0)) : [],
    },
    {
      what: 'discarded with attempts left',
      ids: idsOf(own.filter((row) => row.state === 'discarded' && row.attempt < row.maxAttempts)),
    },
  ]
}

/**
 * A job may only wait if something will bring it to a worker. The other way round, a job message that is
 * still in the queue has stopped a worker, because the queue was fetched until it was empty.
 */
function stuck({ rows, jobMessages, now }: Evidence): Finding[] {
  const inBroker = new Set(jobMessages)
  const over = new Set(idsOf(rows.filter((row) => OVER.has(row.state))))
  const isPastDue = (row: LedgerRow, ms: number) => (row.dueAt ?? 0) < now - ms
  const inState = (state: string) => rows.filter((row) => row.state === state)
  return [
    {
      what: 'available without a job message in the broker',
      ids: idsOf(inState('available').filter((row) => !inBroker.has(row.id))),
    },
    {
      what: 'job message in the broker for a job that is over',
      ids: jobMessages.filter((id) => over.has(id)),
    },
    {
      what: 'retryable and past due by more than 5 s',
      ids: idsOf(inState('retryable').filter((row) => isPastDue(row, PROMOTED_MS))),
    },
    {
      what: 'past due by more than 60 s with an empty broker',
      ids:
        jobMessages.length > 0
          ? []
          : idsOf(inState('scheduled').filter((row) => isPastDue(row, PAST_DUE_MS))),
    },
    {
      what: 'in a lease that ended more than 60 s ago',
      ids: idsOf(inState('active').filter((row) => (row.leaseExpiresAt ?? 0) < now - PAST_DUE_MS)),
    },
  ]
}

/** Reads, metrics and the queue recovery trust the kept counts. */
function miscounted({ rows, kept }: Evidence): string[] {
  const { withdrawn: _, ...counted } = countBy(rows)
  return Object.keys({ ...counted, ...kept })
    .filter((state) => counted[state] !== kept[state])
    .map((state) => `${counted[state] ?? 0} rows are ${state}, kept count ${kept[state] ?? 0}`)
}

/** An active row belongs to a worker here, or to a FETCH answer that never arrived. */
function leased({ journal, rows }: Evidence): Finding[] {
  const active = rows.filter((row) => row.state === 'active')
  // Workers have failed or acknowledged all of their attempts by now.
  const orphans = idsOf(
    active.filter((row) => (journal.executions.get(row.id) ?? 0) <= journal.endedBadly(row.id)),
  )
  return [
    {
      what: 'executed and acknowledged, but active',
      ids: active.filter((row) => journal.acks.has(row.id)).map((row) => row.id),
    },
    {
      what: `leased to nobody, but only ${journal.lostFetchAnswers} can have been lost on the way`,
      ids: orphans.length > journal.lostFetchAnswers ? orphans : [],
    },
  ]
}

function problemText({ what, ids }: Finding): string {
  if (ids.length === 0) return ''
  return `${ids.length} ${what}: ${ids.slice(0, SHOWN).join(', ')}${ids.length > SHOWN ? ' …' : ''}`
}

function countBy(rows: readonly LedgerRow[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { state } of rows) counts[state] = (counts[state] ?? 0) + 1
  return counts
}

/** The verdict as the lines that a crash test prints. */
export function report(title: string, verdict: Verdict): string {
  const states = Object.entries(verdict.states).map(([state, count]) => `${state} ${count}`)
  const { publishes, retries, leases } = verdict.inFlight
  return [
    title,
    `  pushed ${verdict.pushed}, answered 2xx ${verdict.accepted}, refused ${verdict.refused}`,
    `  attempts failed ${verdict.failed}; ended as: ${states.join(', ')}`,
    `  in flight at the fault: ${publishes} publishes, ${retries} retry publishes, ${leases} leases`,
    `  lost ${verdict.lost}, executed twice ${verdict.executedTwice}`,
    ...verdict.problems.map((problem) => `  PROBLEM: ${problem}`),
    '',
  ].join('\n')
}
