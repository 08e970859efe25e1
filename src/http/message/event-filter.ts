/** Which events a request asks for, under every name that the parameters have. */
import type { Request } from 'express'
import { queuesNotNamed, requireQueueInScope } from '../../operations/scope.ts'
import { list } from './query.ts'

/** `event_types` in OJS realtime, `types` in its command line; empty: all. Throws 400 for an empty parameter. */
export function typesOf(request: Request): ReadonlySet<string> {
  return namedIn(request, ['types', 'type', 'event_types'])
}

/** Empty: all. Throws 400 for an empty parameter, 403 if the caller's key is not for all of these queues. */
export function queuesOf(request: Request): ReadonlySet<string> {
  const queues = namedIn(request, ['queues', 'queue'])
  const { context } = request
  if (context.queues !== undefined && queues.size === 0) throw queuesNotNamed(context, 'queues')
  for (const queue of queues) requireQueueInScope(context, queue, 'queue')
  return queues
}

function namedIn(request: Request, names: readonly string[]): ReadonlySet<string> {
  return new Set(names.flatMap((name) => [...list(request, name)]))
}
