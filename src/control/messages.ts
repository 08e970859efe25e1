import type { ControlMessage } from '../broker/broker.ts'
import { infoDocument } from '../job/document.ts'
import { cancel } from '../operations/cancel.ts'
import type { Deps, RequestContext } from '../operations/deps.ts'
import { info } from '../operations/info.ts'
import { parseJobId } from '../schemas/control.ts'

/** What a handler is given: the message, and its body as JSON. */
export interface Received {
  message: ControlMessage
  body: Record<string, unknown>
  context: RequestContext
  /** So many parts were left out because they are not valid. */
  skipped(count: number): void
}

/** Resolves after the commit of all that the message holds. */
type Command = (deps: Deps, received: Received) => Promise<unknown>
/** The answer, as JSON text. */
type Question = (deps: Deps, received: Received) => Promise<string> | string

/** Every message that a worker or client may send (architecture §5). */
export const COMMANDS: ReadonlyMap<string, Command> = new Map<string, Command>([
  [
    'ojs.control.cancel',
    (deps, { body, context }) => cancel(deps, parseJobId(body).job_id, context),
  ],
])

export const QUESTIONS: ReadonlyMap<string, Question> = new Map<string, Question>([
  ['ojs.control.info', (deps, { body }) => infoDocument(info(deps, parseJobId(body).job_id))],
])
