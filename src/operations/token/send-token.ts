import type { PublishOutcome } from '../../broker/broker.ts'
import { publishRefusal, queueRefusal } from '../../broker/refusals.ts'
import type { OjsError } from '../../errors.ts'
import { isTerminal, type JobRow } from '../../job/job.ts'
import type { Expired } from '../../ledger/ledger.ts'
import { broadcastCancel } from '../broadcasts.ts'
import type { Deps } from '../deps.ts'

/** No queue has what ended so. */
const SURELY_LOST: ReadonlySet<SendOutcome> = new Set([
  'returned',
  'nacked',
  'too-large',
  'denied',
  'refused',
])

/** `not-owed`: the first publish found no queue, and by then nobody wanted its token any more. */
type SendOutcome = PublishOutcome | 'not-owed'
type SendFailure = Exclude<PublishOutcome, 'confirmed'>

export interface Sent {
  outcome: SendOutcome
  /** The row whose nonce was published: a queue that had to be declared anew changes it. */
  row: JobRow
}

/**
 * Publishes the token that `row.outbox` owes, or of a cancelled job the broadcast, and clears the
 * nonce on confirm (law 3). The only caller of `broker.publish` for job tokens; one publish per job
 * at a time. Never rejects, as most callers have nobody to tell: where the ledger cannot be read
 * behind a lost token, that is `unknown`, and the outbox goes on owing it.
 */
export async function sendToken(deps: Deps, row: JobRow): Promise<Sent> {
  deps.tokens.sending.add(row.id)
  try {
    const sent = await sendOwed(deps, row)
    if (sent.outcome === 'confirmed') noteConfirm(deps, sent.row)
    else noteNeverPublished(deps, sent)
    noteWhetherSure(deps, sent)
    return sent
  } catch (err) {
    deps.logger.warn({ err, jobId: row.id }, 'token stays owed')
    deps.tokens.unsure.add(row.id)
    return { outcome: 'unknown', row }
  } finally {
    deps.tokens.sending.delete(row.id)
  }
}

/** The token stays owed, unless whoever sent it takes it back. */
export function isFailure(outcome: SendOutcome): outcome is SendFailure {
  return outcome !== 'confirmed' && outcome !== 'not-owed'
}

/** The same for whoever is content that the job is stored: what cannot be sent now is the relay's. */
export async function sendOrLeave(deps: Deps, row: JobRow): Promise<void> {
  leaveToRelay(deps, await sendToken(deps, row))
}

/** Its next look by itself is up to 30 s away, and a full queue may have room a moment later. */
export function leaveToRelay(deps: Deps, { outcome }: Sent): void {
  if (isFailure(outcome)) deps.wakeRelay()
}

function noteConfirm({ ledger }: Deps, { id, outbox, state }: JobRow): void {
  if (outbox === null) return
  if (state === 'discarded') ledger.copyConfirmed(id, outbox)
  else ledger.confirmed(outbox)
}

/**
 * The job ended while its token was on its way, and that never reached a queue: nobody needs to wait
 * for it, and nobody else will hear of it.
 */
function noteNeverPublished({ ledger, tokens }: Deps, { outcome, row }: Sent): void {
  if (!SURELY_LOST.has(outcome) || isTerminal(row.state) || tokens.unsure.has(row.id)) return
  const now = ledger.find(row.id)
  if (now === null || !isTerminal(now.state) || now.generation !== row.generation) return
  ledger.tokenReturned(row.id, row.generation)
}

function noteWhetherSure({ tokens }: Deps, { outcome, row }: Sent): void {
  // Broadcasts and copies are no tokens.
  if (isTerminal(row.state)) return
  if (outcome === 'unknown' || outcome === 'forbidden') tokens.unsure.add(row.id)
  else if (!isFailure(outcome)) tokens.unsure.forget(row.id)
}

async function sendOwed(deps: Deps, row: JobRow): Promise<Sent> {
  const outcome = await publishOwed(deps, row)
  // Nearly always; what is awaited for nothing costs each PUSH a turn.
  if (outcome === 'confirmed') return { outcome, row }
  const isLost = outcome === 'returned' || (await diedWithQueue(deps, row, outcome))
  return isLost ? await sendAgain(deps, row) : { outcome, row }
}

/** RabbitMQ nacks what was on its way into a queue that is deleted: it is not full, it is gone. */
async function diedWithQueue(deps: Deps, row: JobRow, outcome: PublishOutcome): Promise<boolean> {
  if (outcome !== 'nacked' || row.state !== 'available') return false
  if (!(await deps.broker.isQueueGone(row.queue))) return false
  await deps.broker.recheckQueue(row.queue)
  return true
}

function publishOwed(deps: Deps, row: JobRow): Promise<PublishOutcome> {
  if (row.state === 'cancelled') return broadcastCancel(deps, row)
  // Another queue of its name may be there: `recover` publishes all that waits, this as well.
  if (deps.ledger.lost.has(row.queue) && !isTerminal(row.state)) return Promise.resolve('refused')
  return deps.broker.publish(row)
}

/** No queue took it: check or declare what it was for, once, and publish what the row says by then. */
async function sendAgain(deps: Deps, row: JobRow): Promise<Sent> {
  if (row.state === 'retryable' && row.rungMs !== null)
    return await afterLostRung(deps, row, row.rungMs)
  const ensured = await deps.broker.ensureQueue(row.queue)
  // A queue that had been lost gave every waiting row a new nonce, this one too.
  const current = deps.ledger.find(row.id)
  // It has ended meanwhile: nobody wants its token any more, and what it owes is another message.
  if (current !== null && isTerminal(current.state) && !isTerminal(row.state)) {
    noteNeverPublished(deps, { outcome: 'returned', row })
    return { outcome: 'not-owed', row }
  }
  if (current === null || current.outbox === null) return { outcome: 'not-owed', row }
  if (ensured !== 'ready') return { outcome: 'returned', row: current }
  return { outcome: await deps.broker.publish(current), row: current }
}

/** The rung is gone or unbound: the outbox goes on owing the token, and the ledger holds the job. */
async function afterLostRung(deps: Deps, row: JobRow, rungMs: number): Promise<Sent> {
  await deps.broker.recheckRung(row.queue, rungMs)
  return { outcome: 'returned', row: deps.ledger.find(row.id) ?? row }
}

/** Why a PUSH is refused whose token did not end in a confirm. It may have been what found the queue lost. */
export function sendRefusal(
  { ledger }: Pick<Deps, 'ledger'>,
  { queue }: Pick<JobRow, 'queue'>,
  outcome: SendFailure,
): OjsError {
  return ledger.lost.has(queue) && (outcome === 'returned' || outcome === 'refused')
    ? queueRefusal(queue, 'lost')
    : publishRefusal(queue, outcome)
}

/**
 * After a withdrawal: a token that surely never reached a queue cannot come back, so that its row
 * may be pruned. After a timeout, or a channel that the broker closed, nobody knows. Not withdrawn:
 * somebody has the job, or it was cancelled while its token was in hand here.
 */
export function noteWithdrawal(deps: Deps, sent: Sent, isWithdrawn: boolean): void {
  if (!isWithdrawn) {
    noteNeverPublished(deps, sent)
    return
  }
  const { outcome, row } = sent
  // `unsure` is bounded: withdrawn jobs would crowd out others during a stall of RabbitMQ.
  deps.tokens.unsure.forget(row.id)
  if (SURELY_LOST.has(outcome)) deps.ledger.tokenReturned(row.id, row.generation)
}

/**
 * Of a job that has just ended: its token was never published, and now never will be, so that nobody
 * needs to wait for it.
 */
export function isUnsent({ tokens }: Deps, { job, isTokenOwed }: Expired): boolean {
  return isTokenOwed && tokens.isSurelyUnsent(job.id)
}
