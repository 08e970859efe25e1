/** A queue is drained, configured or deleted, by operators. */
import { configurationOf, configureQueue } from '../../../operations/queues/configure.ts'
import { drainQueue } from '../../../operations/queues/drain.ts'
import { findQueue, recentWaits } from '../../../operations/queues/queues.ts'
import { messagesOf } from '../../../operations/rabbitmq.ts'
import { requireOneMeaning } from '../../../operations/search/purge.ts'
import { deleteQueue } from '../../../operations/steer/delete-queue.ts'
import { readJson, readOptionalJson } from '../../message/body.ts'
import { filterText } from '../../message/query.ts'
import { answer } from '../../message/respond.ts'
import { CONFIGURE_QUEUE, DELETE_QUEUE, DRAIN_QUEUE } from '../../openapi/queues.ts'
import { type Endpoint, pathParameter } from '../../route.ts'
import {
  adminQueue,
  configurationDocument,
  drainMembers,
  messageMembers,
} from '../queue-documents.ts'
import { queueCommand } from '../queues.ts'
import type { Door } from '../route-deps.ts'

/** Changes of queues (OJS admin API and queue configuration; not part of the seeds). */
export function queueSteeringRoutes({ deps }: Door): Endpoint[] {
  return [
    queueCommand(deps, '/ojs/v1/admin/queues/:name/drain', DRAIN_QUEUE, async (name, context) => {
      const drain = await drainQueue(deps, name, context)
      return { name, state: 'draining', ...drainMembers(drain) }
    }),
    ...['/ojs/v1/admin/queues', '/ojs/v1/queues'].map((path) => configRoute({ deps }, path)),
    {
      method: 'DELETE',
      path: '/ojs/v1/queues/:name',
      about: DELETE_QUEUE,
      scoping: 'queue',
      async handle(request, response) {
        const given = await readOptionalJson(request, response, deps.settings.maxBodyBytes)
        const strategy = filterText(request, 'strategy')
        const body = requireOneMeaning(given, strategy === null ? {} : { strategy })
        const queue = pathParameter(request, 'name')
        await deleteQueue(deps, queue, body, request.context)
        const done = { queue, strategy: 'reject', jobs_affected: 0, state: 'deleted' }
        answer(response, 200, JSON.stringify(done))
      },
    },
  ]
}

/** OJS's documents have it in both places. */
function configRoute({ deps }: Pick<Door, 'deps'>, path: string): Endpoint {
  const isAdmin = path.includes('/admin/')
  return {
    method: 'PUT',
    path: `${path}/:name/config`,
    about: isAdmin ? CONFIGURE_QUEUE : { ...CONFIGURE_QUEUE, id: 'putQueueConfig', tag: 'queues' },
    scoping: 'queue',
    async handle(request, response) {
      const body = await readJson(request, response, deps.settings.maxBodyBytes)
      const name = pathParameter(request, 'name')
      await configureQueue(deps, name, body, request.context)
      answer(response, 200, await queueDetail(deps, name))
    },
  }
}

/** A queue in full, as JSON. Throws 404. */
export async function queueDetail(
  deps: Door['deps'],
  name: string,
  withMessages = false,
): Promise<string> {
  const [queue, waits] = await Promise.all([findQueue(deps, name), recentWaits(deps, name)])
  const configuration = configurationDocument(configurationOf(deps, name))
  const messages = withMessages ? (await messagesOf(deps, [name])).get(name) : undefined
  return JSON.stringify({
    ...adminQueue(queue, waits),
    ...messageMembers(messages),
    configuration,
  })
}
