/** API keys of some queues: what each route does with them; a route that says nothing refuses them. */
import type { Request } from 'express'
import { OjsError } from '../../errors.ts'
import type { Deps } from '../../operations/deps.ts'
import { queuesNotNamed, requireKnownJob, requireQueueInScope } from '../../operations/scope.ts'

/**
 * How a route keeps to the queues of a key. `job`, `queue`: the parameter `:id` or `:name` of its path must be
 * one of theirs. `parameter`: this query parameter must name some of them, and no others. `own`: the operation
 * looks at `context.queues` itself.
 */
export type Scoping = 'job' | 'queue' | 'own' | { parameter: 'queue' }

/** Throws 403, or 404 for a job of another queue. Called for requests whose key is for some queues only. */
export async function requireScope(
  deps: Pick<Deps, 'ledger'>,
  scoping: Scoping | undefined,
  { params, query, context }: Request,
): Promise<void> {
  if (scoping === 'own') return
  if (scoping === 'job') await requireKnownJob(deps, context, String(params['id']))
  else if (scoping === 'queue') requireQueueInScope(context, String(params['name']), 'path')
  else if (scoping === undefined) throw forAllQueues()
  else requireNamed(scoping.parameter, query, context)
}

function requireNamed(name: string, query: Request['query'], context: Request['context']): void {
  const given = query[name]
  if (typeof given !== 'string' || given === '') throw queuesNotNamed(context, name)
  for (const queue of given.split(',')) requireQueueInScope(context, queue.trim(), name)
}

/** Throws 403 for a key of some queues. */
export function requireAllQueues({ context }: Request): void {
  if (context.queues !== undefined) throw forAllQueues()
}

function forAllQueues(): OjsError {
  return new OjsError(
    'x_forbidden',
    'This endpoint is about all queues; the API key is for some.',
    {
      details: { reason: 'queue_scope' },
    },
  )
}
