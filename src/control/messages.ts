import type { ControlMessage } from '../broker/broker.ts'
import { infoDocument } from '../job/document.ts'
import type { ReportEvent } from '../job/request.ts'
import type { Deps, RequestContext } from '../operations/deps.ts'
import { infoInOrder } from '../operations/info.ts'
import { controlCancel } from '../operations/native/cancel.ts'
import { nativeClaim } from '../operations/native/claim.ts'
import { nativeHeartbeat } from '../operations/native/heartbeat.ts'
import { report } from '../operations/native/report.ts'
import { sync } from '../operations/native/sync.ts'
import {
  type Complaint,
  parseClaim,
  parseJobId,
  parseNativeHeartbeat,
  parseReport,
  parseSync,
  REPORT_EVENTS,
} from '../schemas/control.ts'
import type { ListMember } from '../schemas/json-list.ts'

/** What a handler is given: the message, and its body as JSON. */
export interface Received {
  message: ControlMessage
  body: Record<string, unknown>
  context: RequestContext
  /** So many parts were left out because they are not valid; what to say of it, if anything. */
  skipped(count: number, complaint?: Complaint): void
}

/** Resolves after the commit of all that the message holds. */
type Command = (deps: Deps, received: Received) => Promise<unknown>
/** The answer, as JSON text. */
type Question = (deps: Deps, received: Received) => Promise<string>

/** What is only said (architecture §5): nobody waits for an answer. */
export const COMMANDS: ReadonlyMap<string, Command> = new Map<string, Command>([
  [
    'ojs.control.cancel',
    (deps, { message: { queue }, body, context }) =>
      controlCancel(deps, { ...parseJobId(body), queue }, context),
  ],
  [
    'ojs.control.heartbeat',
    (deps, { message: { queue }, body, context, skipped }) => {
      const parsed = parseNativeHeartbeat(body)
      skipped(parsed.skipped)
      return nativeHeartbeat(deps, parsed.request, context, queue)
    },
  ],
  [
    'ojs.control.report',
    (deps, { message: { queue, isLate }, body, context, skipped }) => {
      const { request, leftOut = [], ...left } = parseReport(body)
      skipped(left.skipped, left.complaint)
      const events = isLate ? request.events.filter(isOfAnEnd) : request.events
      return report(deps, { ...request, events, queue }, context, leftOut)
    },
  ],
])

/** What must not be lost for the neighbour that cannot be read. */
export const LISTS: ReadonlyMap<string, ListMember> = new Map([
  ['ojs.control.report', REPORT_EVENTS],
])

/**
 * A start that is heard late would begin what was given back since, and a release take away what has
 * begun again. If there was no end either, the next heartbeat tells of the start.
 */
function isOfAnEnd({ event }: ReportEvent): boolean {
  return event !== 'started' && event !== 'released'
}

/**
 * Of what died on its way to us: a report, and the wish to cancel. A heartbeat says what ran then, and
 * would start anew what has ended since; nobody waits for an answer any more.
 */
export function isWorthHearingLate(type: string): boolean {
  return LISTS.has(type) || type === 'ojs.control.cancel'
}

/** What is asked, with the address of the asker. */
export const QUESTIONS: ReadonlyMap<string, Question> = new Map<string, Question>([
  [
    'ojs.control.info',
    async (deps, { body }) => infoDocument(await infoInOrder(deps, parseJobId(body).job_id)),
  ],
  [
    'ojs.control.claim',
    async (deps, { body }) => JSON.stringify(await nativeClaim(deps, parseClaim(body))),
  ],
  ['ojs.control.sync', async (deps, { body }) => JSON.stringify(await sync(deps, parseSync(body)))],
])

export function isKnown(type: string): boolean {
  return COMMANDS.has(type) || QUESTIONS.has(type)
}

/** For counters: anybody may have thought of other types. */
export function typeLabel(type: string): string {
  return isKnown(type) ? type : 'unknown'
}
