/** Server-sent events: of everything, of a queue, of a job; statistics every second. */
import type { Request, Response } from 'express'
import { echoed, invalidField, notFound } from '../../errors.ts'
import { timestamp } from '../../job/document.ts'
import { isTerminal, type JobRow } from '../../job/job.ts'
import { info } from '../../operations/info.ts'
import { readProgress } from '../../operations/lease/progress.ts'
import { requireKnownJob, requireQueueInScope } from '../../operations/scope.ts'
import type { Watched } from '../connection/watch.ts'
import { queuesOf, typesOf } from '../message/event-filter.ts'
import { endId, ProgressTold } from '../message/progress-events.ts'
import { filterText } from '../message/query.ts'
import { answerEmpty } from '../message/respond.ts'
import { changeOf, type StreamFilter } from '../message/stream-events.ts'
import {
  STREAM_EVENTS,
  STREAM_JOB_EVENTS,
  STREAM_PROGRESS,
  STREAM_QUEUE_EVENTS,
  STREAM_STATS,
} from '../openapi/events.ts'
import { type Endpoint, pathParameter } from '../route.ts'
import type { Door } from './route-deps.ts'

/** Streams of events (OJS realtime). Not part of the seeds. */
export function eventStreamRoutes(door: Door): Endpoint[] {
  return [
    {
      method: 'GET',
      path: '/ojs/v1/events/stream',
      about: STREAM_EVENTS,
      access: ['operator'],
      scoping: 'own',
      handle: (request, response) => streamOf(door, request, response),
    },
    {
      method: 'GET',
      path: '/ojs/v1/jobs/:id/events',
      about: STREAM_JOB_EVENTS,
      access: ['producer', 'worker', 'operator'],
      scoping: 'job',
      handle: (request, response) =>
        streamOfJob(door, request, response, pathParameter(request, 'id')),
    },
    {
      method: 'GET',
      path: '/ojs/v1/queues/:name/events',
      about: STREAM_QUEUE_EVENTS,
      access: ['operator'],
      scoping: 'queue',
      handle: (request, response) =>
        streamOfQueue(door, request, response, pathParameter(request, 'name')),
    },
    {
      method: 'GET',
      path: '/ojs/v1/jobs/:id/progress/stream',
      about: STREAM_PROGRESS,
      access: ['producer', 'worker', 'operator'],
      scoping: 'job',
      handle: (request, response) => streamOfProgress(door, request, response),
    },
    {
      method: 'GET',
      path: '/ojs/v1/admin/stats/stream',
      about: STREAM_STATS,
      access: ['operator'],
      handle(request, response) {
        if (!isHead(request, response)) door.streams.followStats(request, response)
      },
    },
  ]
}

/** `channel` is what OJS's SDKs ask for; without it, the stream has the vocabulary of `GET /events`. */
async function streamOf(door: Door, request: Request, response: Response): Promise<void> {
  const channel = filterText(request, 'channel')
  const [, kind, name = ''] = /^(job|queue):(.+)$/.exec(channel ?? '') ?? []
  if (kind === 'job') {
    await requireKnownJob(door.deps, request.context, name)
    await streamOfJob(door, request, response, name)
  } else if (kind === 'queue') {
    requireQueueInScope(request.context, name, 'channel')
    streamOfQueue(door, request, response, name)
  } else if (channel === null || channel === 'all') {
    streamOfAll(door, request, response, channel)
  } else {
    throw invalidField('channel', "The 'channel' must be all, job:<id> or queue:<name>.", {
      received: echoed(channel),
    })
  }
}

function streamOfAll(
  { streams }: Door,
  request: Request,
  response: Response,
  channel: string | null,
): void {
  const queues = queuesOf(request)
  if (isHead(request, response)) return
  streams.follow(request, response, {
    channel: 'all',
    isMeant: ({ queue }) => queues.size === 0 || (queue !== null && queues.has(queue)),
    types: typesOf(request),
    form: channel === null ? 'all' : 'realtime',
  })
}

function streamOfQueue(door: Door, request: Request, response: Response, name: string): void {
  if (!door.deps.ledger.known.hasQueue(name)) throw notFound('queue', name)
  if (isHead(request, response)) return
  door.streams.follow(request, response, {
    channel: `queue:${name}`,
    isMeant: ({ queue }) => queue === name,
    types: typesOf(request),
    form: 'realtime',
  })
}

/** Ends with the job. A browser that comes again after that is told by 204 to stop. */
async function streamOfJob(
  door: Door,
  request: Request,
  response: Response,
  id: string,
): Promise<void> {
  // What happens while the row is read counts as new.
  const { end } = door.events
  const { job } = await info(door.deps, id)
  if (isHead(request, response)) return
  const isOver = isTerminal(job.state)
  const seen = request.get('last-event-id')
  if (isOver && seen && hasSeenAll(door, seen, id)) {
    answerEmpty(response)
    return
  }
  const filter: StreamFilter = {
    channel: `job:${id}`,
    isMeant: ({ jobId }) => jobId === id,
    types: typesOf(request),
    form: 'realtime',
    isLast: ({ moved }) => moved !== null && isTerminal(moved.to),
  }
  const stream = door.streams.follow(request, response, filter, end)
  const isReplayed = seen !== undefined && door.events.numberAfter(seen) !== null
  if (!isOver || isReplayed) return
  stream.end({ id: endId(id), event: 'job.state_changed', data: finalState(job) })
}

/** Ends with the job, as the stream of its events; but it tells how far the job is, and not what has happened. */
async function streamOfProgress(
  { deps, events, streams }: Door,
  request: Request,
  response: Response,
): Promise<void> {
  const id = pathParameter(request, 'id')
  // What happens while the job is read counts as new.
  const { end } = events
  const first = await readProgress(deps, id)
  if (isHead(request, response)) return
  if (isTerminal(first.job.state) && request.get('last-event-id') === endId(id)) {
    answerEmpty(response)
    return
  }
  const told = new ProgressTold()
  const watched: Watched = {
    isMeant: ({ jobId }) => jobId === id,
    look: async () => told.next(await readProgress(deps, id)),
  }
  streams.watch(request, response, watched, told.next(first), end)
}

function hasSeenAll({ events }: Door, seen: string, id: string): boolean {
  if (seen === endId(id)) return true
  const next = events.numberAfter(seen)
  if (next === null) return false
  for (let number = next; number < events.end; number++) {
    if (events.follow(number, ({ jobId }) => jobId === id)?.moved) return false
  }
  return true
}

function finalState(job: JobRow): object {
  const { id, queue, type, state, attempt } = job
  const at = job.completedAt ?? job.cancelledAt ?? job.discardedAt ?? job.enqueuedAt
  const facts = { jobId: id, queue, moved: { from: null, to: state } }
  return changeOf({
    ...facts,
    recorded: { time: timestamp(at), data: { job_type: type, attempt } },
  })
}

/** Express answers HEAD by the route of GET, whose answer would never end. */
function isHead(request: Request, response: Response): boolean {
  if (request.method !== 'HEAD') return false
  answerEmpty(response)
  return true
}
