/** The table of control messages: which operation handles a type, and how it is answered. */
import type { ControlMessage } from '../broker/broker.ts'
import { checkpointMembers, infoDocument } from '../job/document.ts'
import type { ReportEvent } from '../job/request.ts'
import type { Deps, RequestContext } from '../operations/deps.ts'
import { infoInOrder } from '../operations/info.ts'
import { controlCancel } from '../operations/native/cancel.ts'
import { type NativeClaimAnswer, nativeClaim } from '../operations/native/claim.ts'
import { nativeHeartbeat } from '../operations/native/heartbeat.ts'
import { nativeCheckpoint, nativeProgress } from '../operations/native/progress.ts'
import { report } from '../operations/native/report.ts'
import { type Refused, refusedOf } from '../operations/native/scope.ts'
import { sync } from '../operations/native/sync.ts'
import type { ListMember } from '../schemas/json/json-list.ts'
import {
  type Complaint,
  parseClaim,
  parseInfo,
  parseJobId,
  parseNativeHeartbeat,
  parseReport,
  parseSync,
  REPORT_EVENTS,
} from '../schemas/requests/control.ts'
import { parseNativeCheckpoint, parseNativeProgress } from '../schemas/requests/progress.ts'

/** What a handler gets: the message, and its body as JSON. */
export interface Received {
  message: ControlMessage
  body: Record<string, unknown>
  context: RequestContext
  /** Called with the number of parts that were left out as invalid, and what to log about them. */
  skipped(count: number, complaint?: Complaint): void
  /** Called with what the message said about jobs that it may not concern. */
  refused(refused: Refused): void
}

/** Resolves after everything in the message is committed. */
type Command = (deps: Deps, received: Received) => Promise<unknown>
/** Resolves with the answer as JSON text. */
type Question = (deps: Deps, received: Received) => Promise<string>

/** Messages that get no answer (docs/architecture.md §5). */
export const COMMANDS: ReadonlyMap<string, Command> = new Map<string, Command>([
  [
    'ojs.control.cancel',
    async (deps, { message: { queue }, body, context, refused }) =>
      refused(await controlCancel(deps, { ...parseJobId(body), queue }, context)),
  ],
  [
    'ojs.control.heartbeat',
    async (deps, { message: { queue }, body, context, skipped, refused }) => {
      const parsed = parseNativeHeartbeat(body)
      skipped(parsed.skipped)
      refused(await nativeHeartbeat(deps, parsed.request, context, queue))
    },
  ],
  [
    'ojs.control.progress',
    async (deps, { message: { queue }, body, context, refused }) =>
      refused(await nativeProgress(deps, parseNativeProgress(body), context, queue)),
  ],
  [
    'ojs.control.checkpoint',
    async (deps, { message: { queue }, body, context, refused }) =>
      refused(await nativeCheckpoint(deps, parseNativeCheckpoint(body), context, queue)),
  ],
  [
    'ojs.control.report',
    async (deps, { message: { queue, isLate }, body, context, skipped, refused }) => {
      const { request, leftOut, ...left } = parseReport(body)
      skipped(left.skipped, left.complaint)
      const events = isLate ? request.events.filter(isOfAnEnd) : request.events
      const reported = await report(deps, { ...request, events, queue }, context, leftOut)
      refused(refusedOf(reported.refused))
    },
  ],
])

/** Messages whose valid parts must count even if other parts cannot be read. */
export const LISTS: ReadonlyMap<string, ListMember> = new Map([
  ['ojs.control.report', REPORT_EVENTS],
])

/**
 * A late `started` would begin again a job that was given back since, and a late `released` would take away
 * one that has begun again. If a job did not end meanwhile, the next heartbeat reports that it runs.
 */
function isOfAnEnd({ event }: ReportEvent): boolean {
  return event !== 'started' && event !== 'released'
}

/**
 * Whether a message that died in its queue is still handled: a report, or a request to cancel. A heartbeat
 * names the jobs that ran then, and would start those again that have ended since. Nobody waits any more for
 * the answer to a question.
 */
export function isWorthHearingLate(type: string): boolean {
  return LISTS.has(type) || type === 'ojs.control.cancel'
}

/** The checkpoint as it is stored: its text is in no other form than the worker sent it. */
function claimAnswer({ checkpoint, ...decision }: NativeClaimAnswer): string {
  const text = JSON.stringify(decision)
  return checkpoint ? `${text.slice(0, -1)}${checkpointMembers(checkpoint)}}` : text
}

/** Messages that get an answer, at their `reply_to`. */
export const QUESTIONS: ReadonlyMap<string, Question> = new Map<string, Question>([
  [
    'ojs.control.info',
    async (deps, { message, body }) => {
      const { job_id: id, queue } = parseInfo(body)
      const { job, progress } = await infoInOrder(deps, id, queue ?? message.queue)
      return infoDocument(job, progress)
    },
  ],
  [
    'ojs.control.claim',
    async (deps, { message, body }) =>
      claimAnswer(await nativeClaim(deps, parseClaim(body), message)),
  ],
  [
    'ojs.control.sync',
    async (deps, { message: { queue }, body }) =>
      JSON.stringify(await sync(deps, parseSync(body), queue)),
  ],
])

export function isKnown(type: string): boolean {
  return COMMANDS.has(type) || QUESTIONS.has(type)
}

/** The type as a label of counters: `unknown` for others, which any client may invent. */
export function typeLabel(type: string): string {
  return isKnown(type) ? type : 'unknown'
}
