/** What native workers report: attempts that they start, end and give back. */
import { isHeldByKey } from '../concurrency.ts'
import { isHeldByLedger, type JobRow } from '../job.ts'
import { lengthened } from './lease.ts'
import { type Change, type KeptRow, NO_LEASE, recorded } from './row.ts'

/**
 * True if this waiting job's last attempt was given back without its job message, or lost the message with
 * its queue, and the next message is not confirmed yet. A native worker that starts the job now runs that
 * last attempt, and may do so long after it ended: no worker can have the message that is owed, or will be
 * owed at `dueAt`.
 */
export function isOwedAgain(
  row: Pick<JobRow, 'workerId' | 'outbox' | 'state' | 'holder' | 'retryQueueMs'>,
): boolean {
  return row.workerId !== null && (row.outbox !== null || isHeldByLedger(row) || isHeldByKey(row))
}

/**
 * Does the worker that runs this waiting job have the job message that counts, so that RabbitMQ redelivers it
 * if the worker dies? Not if that message is still owed (or will be, when the job is due): then the worker
 * runs an earlier attempt, whose lease had run out. But a job that has not been attempted yet has no earlier
 * attempt: then the worker has the message, and only its confirm has not arrived yet.
 */
export function isMessageItsOwn(
  row: Parameters<typeof isOwedAgain>[0] & Pick<JobRow, 'attempt' | 'generation'>,
  confirming: { has(outbox: number): boolean },
): boolean {
  const { outbox, attempt, generation } = row
  const isConfirmed = outbox === null || confirming.has(outbox)
  if (!isHeldByLedger(row) && !isHeldByKey(row) && isConfirmed) return true
  return attempt === 0 && generation === 0 && !isOwedAgain(row)
}

/** What an event is about. `generation` null: the worker did not name it; `ofQueue`: only a job of this queue. */
interface Event {
  generation?: number | null | undefined
  attempt: number
  ofQueue?: string | null | undefined
}

function isAbout(row: KeptRow, { generation, ofQueue }: Event): boolean {
  return (
    (generation == null || row.generation === generation) &&
    (ofQueue == null || row.queue === ofQueue)
  )
}

/** Is this the next attempt of an available job? */
export function isNativeNext(row: KeptRow, event: Event): boolean {
  return (
    isAbout(row, event) &&
    row.state === 'available' &&
    row.holder === null &&
    row.attempt === event.attempt - 1
  )
}

interface Done {
  now: number
  result: string | null
  elapsedMs?: number | undefined
  workerId: string | null
}

const END = { state: 'completed', error: null, outbox: null, holder: null } as const

/**
 * Completes an active job, unless another worker has its live lease and is not a native one. If the holder is
 * the gateway, it has the delivery and settles it, so `messageOut` stays. `startedAt` is corrected by
 * `elapsedMs`, because the report of the start may have taken longer to arrive than that of the end.
 */
export function nativeDone(
  row: KeptRow,
  event: Event,
  { now, result, elapsedMs, workerId }: Done,
  line: string,
): Change | null {
  const { holder, startedAt, enqueuedAt, leaseExpiresAt } = row
  const isRunning = row.state === 'active' && row.attempt === event.attempt
  const isOver = leaseExpiresAt !== null && leaseExpiresAt <= now
  const mayEnd = holder === 'native' || row.workerId === workerId || isOver
  if (!isAbout(row, event) || !isRunning || !mayEnd) return null
  const began = Math.max(enqueuedAt, now - (elapsedMs ?? 0))
  return {
    ...END,
    ...NO_LEASE,
    result,
    completedAt: now,
    endedAt: now,
    messageOut: holder === 'gateway' ? row.messageOut : false,
    startedAt: startedAt === null ? null : Math.min(startedAt, began),
    workerId,
    history: recorded(row, line),
  }
}

/** Start and completion at once: the usual report of a short job. */
export function nativeNextDone(
  row: KeptRow,
  event: Event,
  { now, result, elapsedMs, workerId }: Done,
  lines: string,
): Change | null {
  if (!isNativeNext(row, event)) return null
  return {
    ...END,
    result,
    completedAt: now,
    endedAt: now,
    attempt: event.attempt,
    workerId,
    retryQueueMs: null,
    startedAt: Math.max(row.enqueuedAt, now - (elapsedMs ?? 0)),
    messageOut: false,
    history: recorded(row, lines),
  }
}

/**
 * The worker puts its message back. One with an attempt number below the row's would be dropped as old, so then
 * the holder stays `native`: the message of a native holder counts whatever its number.
 */
export function nativeReleased(
  row: KeptRow,
  { workerId, messageAttempt }: { workerId: string; messageAttempt: number },
  nonce: number,
  line: string,
): Change | null {
  const { holder, attempt } = row
  const isHeld = holder === 'native' || holder === 'ledger'
  if (row.state !== 'active' || row.workerId !== workerId || !isHeld) return null
  return {
    state: 'available',
    attempt: attempt - 1,
    startedAt: null,
    workerId: holder === 'ledger' ? row.workerId : null,
    outbox: holder === 'ledger' ? nonce : null,
    messageOut: true,
    holder: holder === 'native' && messageAttempt < attempt ? 'native' : null,
    ...NO_LEASE,
    history: recorded(row, line),
  }
}

/** `leaseMs` null: the lease is as long as it was. The lease gets this worker as its owner if it has none. */
export function nativeExtended(
  row: KeptRow,
  beat: {
    now: number
    leaseMs: number | null
    workerId: string
    ofQueue?: string | null | undefined
  },
): Change | null {
  const isUnowned = row.workerId === null && row.holder === 'native'
  const isOwn = row.workerId === beat.workerId || isUnowned
  const isMeant = beat.ofQueue == null || row.queue === beat.ofQueue
  if (row.state !== 'active' || !isOwn || !isMeant) return null
  const { now, leaseMs, workerId } = beat
  return { ...lengthened(row, now, leaseMs), workerId: row.workerId ?? workerId }
}

/** For a dead letter whose job message was acknowledged, so that no nack will make its copy. */
export function copyOwed(row: KeptRow, generation: number, nonce: number): Change | null {
  const { state, isDeadLetter, deadLetterCopied, outbox } = row
  const isMissing = state === 'discarded' && isDeadLetter && !deadLetterCopied && outbox === null
  return row.generation === generation && isMissing ? { outbox: nonce } : null
}
