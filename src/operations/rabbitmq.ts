/** RabbitMQ as it is, for people to read: the server, its queues, and messages beside the ledger's jobs. */
import type {
  BrokerStatus,
  BrokerWarning,
  Depth,
  OutgoingView,
  QueueView,
  ServerView,
} from '../broker/broker.ts'
import { notFound, unavailable } from '../errors.ts'
import type { Deps } from './deps.ts'
import { countLost } from './drift.ts'
import { visibleJob } from './info.ts'

export type { OutgoingView, QueueView }

export interface ServerReport extends ServerView {
  status: BrokerStatus
  warnings: readonly BrokerWarning[]
}

/** What RabbitMQ has of a queue beside what the ledger knows. */
export interface Messages extends Depth {
  /** Available jobs that their concurrency keys hold back: they have no message. */
  heldBack: number
  /** Available jobs that have lost their messages, as far as is known. */
  missing: number
}

export async function serverReport({ broker }: Pick<Deps, 'broker'>): Promise<ServerReport> {
  const server = await broker.inspection.server()
  return { ...server, status: broker.status(), warnings: broker.warnings() }
}

export function brokerQueues(
  { broker }: Pick<Deps, 'broker'>,
  page: { limit: number; offset: number },
): Promise<{ queues: readonly QueueView[]; total: number }> {
  return broker.inspection.queues(page)
}

/** By queue; those that RabbitMQ does not have, or could not be asked for, are missing. */
export async function messagesOf(
  { broker, ledger }: Pick<Deps, 'broker' | 'ledger'>,
  queues: readonly string[],
): Promise<ReadonlyMap<string, Messages>> {
  const depths = await broker.inspection.depths(queues)
  const all = [...depths].map(async ([queue, depth]) => {
    const missing = await missingIn({ broker, ledger }, queue)
    return [queue, { ...depth, heldBack: ledger.known.held(queue), missing }] as const
  })
  return new Map(await Promise.all(all))
}

/** Many are seen at once, by their number; a few only when the queue has stood empty for a minute. */
async function missingIn(
  { broker, ledger }: Pick<Deps, 'broker' | 'ledger'>,
  queue: string,
): Promise<number> {
  const many = broker.silentlyAcknowledged(queue, ledger.known.counts(queue).available)
  const before = broker.driftedBefore(queue)
  if (many > 0 || before === null) return many
  return await countLost(ledger, queue, before)
}

/** The message of a job's next attempt, or its copy as a dead letter. Throws 404. */
export async function jobMessage(
  deps: Pick<Deps, 'broker' | 'ledger'>,
  id: string,
): Promise<OutgoingView> {
  const job = await visibleJob(deps, id)
  if (job === null) throw notFound('job', id)
  const message = deps.broker.inspection.messageOf(job)
  if (message === null) throw unavailable('The message of the job cannot be built.', 'no_message')
  return message
}
