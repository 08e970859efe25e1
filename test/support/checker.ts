/**
 * What the crash tests prove with: the clients' own record of a run, compared with the ledger and
 * the broker after everything was drained (architecture §1, laws 4 and 6).
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
  /** Jobs that FETCH answers could have held that never arrived. */
  lostFetchAnswers = 0
  /** Answers that no client should have seen. */
  readonly complaints: string[] = []
  #accepted = 0
  #refused = 0

  pushing(id: string): void {
    this.pushes.set(id, 'unknown')
  }

  pushed(id: string, outcome: PushOutcome): void {
    this.pushes.set(id, outcome)
    if (outcome === 'accepted') this.#accepted++
    if (outcome === 'refused') this.#refused++
  }

  executed(id: string): void {
    this.executions.set(id, (this.executions.get(id) ?? 0) + 1)
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
}

/** A ledger row, as far as it matters here. */
export interface LedgerRow {
  readonly id: string
  readonly state: string
  readonly attempt: number
  readonly result: string | null
  readonly outbox: number | null
  readonly dueAt: number | null
  readonly leaseExpiresAt: number | null
}

/** Law 6: what a fault may cause to run twice, from the gateway's log at the last line before it. */
export interface InFlight {
  readonly publishes: number
  readonly leases: number
}

/** Everything there is to know when the run is over and the gateway has been stopped. */
export interface Evidence {
  readonly journal: Journal
  readonly rows: readonly LedgerRow[]
  /** The ledger's own kept counts by state; without `withdrawn`, which is no state of a job. */
  readonly kept: Readonly<Record<string, number>>
  /** Job ids of the tokens in the job queue; one entry per token. */
  readonly tokens: readonly string[]
  readonly inFlight: InFlight
  /** Ms since the epoch, when the rows were read. */
  readonly now: number
}

export interface Verdict {
  readonly pushed: number
  readonly accepted: number
  readonly refused: number
  readonly states: Readonly<Record<string, number>>
  readonly executedTwice: number
  readonly inFlight: InFlight
  /** Empty when all promises were kept. */
  readonly problems: readonly string[]
}

const PAST_DUE_MS = 60_000
const SHOWN = 3
const OVER = new Set(['completed', 'cancelled', 'discarded', 'withdrawn'])

/** The result that workers acknowledge a job with: it tells whose acknowledgement this was. */
export function resultFor(id: string): { executed: string } {
  return { executed: id }
}

export function check(evidence: Evidence): Verdict {
  const { journal, rows, inFlight } = evidence
  const twice = [...journal.executions].filter(([, count]) => count > 1)
  const extra = twice.reduce((sum, [, count]) => sum + count - 1, 0)
  const bound = inFlight.publishes + inFlight.leases
  const problems = [
    ...(bound === 0 ? ['nothing was in flight at the fault: it proves nothing'] : []),
    ...(extra > bound ? [`${extra} executions too many, but only ${bound} were in flight`] : []),
    ...[...keptPromises(evidence), ...stuck(evidence), ...leased(evidence)].map(problemText),
    ...miscounted(evidence),
    ...journal.complaints.slice(0, SHOWN),
  ]
  return {
    pushed: journal.pushes.size,
    accepted: journal.accepted,
    refused: journal.refused,
    states: countBy(rows),
    executedTwice: twice.length,
    inFlight,
    problems: problems.filter((problem) => problem !== ''),
  }
}

interface Finding {
  readonly what: string
  readonly ids: readonly string[]
}

/** What was answered is true: accepted jobs are there, refused ones are not, acks are kept. */
function keptPromises({ journal, rows }: Evidence): Finding[] {
  const visible = new Map(
    rows.filter((row) => row.state !== 'withdrawn').map((row) => [row.id, row]),
  )
  const pushed = (outcome: PushOutcome) =>
    [...journal.pushes].filter(([, own]) => own === outcome).map(([id]) => id)
  const done = rows.filter((row) => row.state === 'completed')
  const acknowledged = [...journal.acks].filter(([, answered]) => answered).map(([id]) => id)
  return [
    {
      what: 'answered 2xx and lost',
      ids: pushed('accepted').filter((id) => !visible.has(id)),
    },
    {
      what: 'refused and there all the same',
      ids: pushed('refused').filter((id) => visible.has(id)),
    },
    {
      what: 'refused and executed',
      ids: pushed('refused').filter((id) => journal.executions.has(id)),
    },
    {
      what: 'ACK answered 2xx and not completed',
      ids: acknowledged.filter((id) => visible.get(id)?.state !== 'completed'),
    },
    {
      what: 'completed without an ACK of its own',
      ids: done.filter((row) => !journal.acks.has(row.id)).map((row) => row.id),
    },
    {
      what: "completed with another job's result",
      ids: done
        .filter((row) => row.result !== JSON.stringify(resultFor(row.id)))
        .map((row) => row.id),
    },
  ]
}

/**
 * Waiting counts as waiting only where something will bring the job to a worker. And the other way
 * round: the queue was fetched empty, so a token that is still there has stopped a worker.
 */
function stuck({ rows, tokens, now }: Evidence): Finding[] {
  const inBroker = new Set(tokens)
  const over = new Set(rows.filter((row) => OVER.has(row.state)).map((row) => row.id))
  const isPastDue = (row: LedgerRow) =>
    ['scheduled', 'retryable'].includes(row.state) && (row.dueAt ?? 0) < now - PAST_DUE_MS
  return [
    {
      what: 'available without a token in the broker',
      ids: rows
        .filter((row) => row.state === 'available' && !inBroker.has(row.id))
        .map((row) => row.id),
    },
    {
      what: 'token in the broker for a job that is over',
      ids: tokens.filter((id) => over.has(id)),
    },
    {
      what: 'past due by more than 60 s with an empty broker',
      ids: tokens.length > 0 ? [] : rows.filter(isPastDue).map((row) => row.id),
    },
    {
      what: 'in a lease that ended more than 60 s ago',
      ids: rows
        .filter((row) => row.state === 'active' && (row.leaseExpiresAt ?? 0) < now - PAST_DUE_MS)
        .map((row) => row.id),
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

/** An active row is somebody's: of a worker here, or of a FETCH answer that never arrived. */
function leased({ journal, rows }: Evidence): Finding[] {
  const active = rows.filter((row) => row.state === 'active')
  const orphans = active.filter((row) => !journal.executions.has(row.id)).map((row) => row.id)
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
  const { publishes, leases } = verdict.inFlight
  return [
    title,
    `  pushed ${verdict.pushed}, answered 2xx ${verdict.accepted}, refused ${verdict.refused}`,
    `  ended as: ${states.join(', ')}`,
    `  in flight at the fault: ${publishes} publishes, ${leases} leases`,
    `  executed twice: ${verdict.executedTwice}`,
    ...verdict.problems.map((problem) => `  PROBLEM: ${problem}`),
    '',
  ].join('\n')
}
