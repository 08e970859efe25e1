/** What an API key of some queues may not do: every refusal of its scope. */
import { notFound, OjsError } from '../errors.ts'
import type { NewJob } from '../job/job.ts'
import { isInScope } from '../job/queue-scope.ts'
import { comparesQueue } from '../job/unique.ts'
import type { Deps, RequestContext } from './deps.ts'

type Scoped = Pick<RequestContext, 'queues'>

/** Whether the caller's key is for this queue. */
export function isQueueInScope({ queues }: Scoped, queue: string): boolean {
  return queues === undefined || isInScope(queues, queue)
}

/** Throws 403 if the caller's key is not for this queue. `field`: where the request names it. */
export function requireQueueInScope(context: Scoped, queue: string, field: string): void {
  if (isQueueInScope(context, queue)) return
  throw new OjsError('x_forbidden', `This API key is not for the queue '${queue}'.`, {
    details: { reason: 'queue_scope', field, allowed_queues: context.queues },
  })
}

/** 403 for a request that names no queue, and so would be about all. `field`: where it may name some. */
export function queuesNotNamed({ queues }: Scoped, field: string): OjsError {
  return new OjsError(
    'x_forbidden',
    `This API key is for some queues only: name them in the parameter '${field}'.`,
    { details: { reason: 'queue_scope', field, allowed_queues: queues } },
  )
}

/**
 * Throws 403 for a new job that the caller's key may not push: of another queue, or unique beyond its queue,
 * because such a policy answers with jobs of other queues, or cancels them.
 */
export function requireJobInScope(context: Scoped, job: NewJob): void {
  if (context.queues === undefined) return
  requireQueueInScope(context, job.queue, 'options.queue')
  if (job.unique === null || comparesQueue(job.envelope)) return
  throw new OjsError(
    'x_forbidden',
    "This API key is for some queues only: its unique policies must name 'queue' in 'keys'.",
    { details: { reason: 'queue_scope', field: 'options.unique.keys' } },
  )
}

/** Whether the caller may know of the job; true for an unknown id, which its operation answers. */
export async function isJobInScope(
  { ledger }: Pick<Deps, 'ledger'>,
  context: Scoped,
  id: string,
): Promise<boolean> {
  if (context.queues === undefined) return true
  const row = await ledger.read.standing(id)
  return row === null || isQueueInScope(context, row.queue)
}

/** Throws 404, as for an unknown id, if the job is of a queue that the caller's key is not for. */
export async function requireKnownJob(
  deps: Pick<Deps, 'ledger'>,
  context: Scoped,
  id: string,
): Promise<void> {
  if (!(await isJobInScope(deps, context, id))) throw notFound('job', id)
}
