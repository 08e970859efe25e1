/** `/dead-letter` and `/admin/dead-letter`: jobs that failed for good are found, counted, retried and deleted. */
import type { Request, Response } from 'express'
import { echoed, invalidField } from '../../../errors.ts'
import { jobDocument, timestamp } from '../../../job/document.ts'
import {
  deadLetterStats,
  deleteDeadLetter,
  findDeadLetter,
  listDeadLetters,
  retryDeadLetter,
} from '../../../operations/dead-letters/dead-letters.ts'
import {
  deadLetterFilter,
  deadLetterPurge,
  deadLetterRetry,
} from '../../../operations/steer/bulk-request.ts'
import { overrideIn, retryChanged } from '../../../operations/steer/copy.ts'
import { mayReadPayloads } from '../../access/roles.ts'
import { readOptionalJson } from '../../message/body.ts'
import {
  adminPageOf,
  type Page,
  pageOf,
  pagination,
  refuseFarOffset,
  shortened,
} from '../../message/page.ts'
import { answer, answerEmpty } from '../../message/respond.ts'
import {
  DEAD_LETTER_STATS,
  DELETE_ADMIN_DEAD_LETTER,
  DELETE_DEAD_LETTER,
  GET_DEAD_LETTER,
  LIST_ADMIN_DEAD_LETTERS,
  LIST_DEAD_LETTERS,
  RETRY_DEAD_LETTER,
} from '../../openapi/dead-letters.ts'
import { type Description, under } from '../../openapi/description.ts'
import { PURGE_DEAD_LETTERS, RETRY_DEAD_LETTERS } from '../../openapi/steer.ts'
import { type Endpoint, pathParameter } from '../../route.ts'
import { documentFor, documentsFor, jobItem } from '../job-documents.ts'
import { filterMembers, placeOf, refuseWithheld, searchPagination } from '../job-search.ts'
import type { Door } from '../route-deps.ts'
import { answerAdmin } from './bulk.ts'

const DEAD_LETTER = '/ojs/v1/dead-letter'
const ADMIN = '/ojs/v1/admin/dead-letter'

/** Lists, retries and deletes dead letters (seed 001 §12, OJS dead letters). */
export function deadLetterRoutes(door: Door): Endpoint[] {
  return [
    listRoute(door),
    adminListRoute(door),
    ...bothRoutes(door, DEAD_LETTER),
    ...bothRoutes(door, ADMIN),
    oneRoute(door),
  ]
}

function listRoute({ deps }: Door): Endpoint {
  return {
    method: 'GET',
    path: DEAD_LETTER,
    about: LIST_DEAD_LETTERS,
    access: ['operator', 'reader'],
    scoping: 'own',
    async handle(request, response) {
      const page = pageOf(request)
      const found = await find(deps, request, page, true)
      const jobs = documentsFor(request, found.jobs)
      const end = JSON.stringify(listPagination(request, page, found))
      answer(response, 200, `{"jobs":${jobs},"pagination":${end}}`)
    },
  }
}

function adminListRoute({ deps }: Door): Endpoint {
  return {
    method: 'GET',
    path: ADMIN,
    about: LIST_ADMIN_DEAD_LETTERS,
    access: ['operator', 'reader'],
    scoping: 'own',
    async handle(request, response) {
      const page = adminPageOf(request)
      const found = await find(deps, request, page, false)
      const included = { args: false, meta: false, texts: mayReadPayloads(request.admission) }
      const items = found.jobs.map((job) => jobItem(job, included))
      const end = listPagination(request, page, found)
      answer(response, 200, JSON.stringify({ items, pagination: end }))
    },
  }
}

/** One dead letter, whole; the Admin API has `/admin/jobs/:id`. */
function oneRoute({ deps }: Door): Endpoint {
  return {
    method: 'GET',
    path: `${DEAD_LETTER}/:id`,
    about: GET_DEAD_LETTER,
    access: ['operator', 'reader'],
    scoping: 'job',
    async handle(request, response) {
      const { whole } = await findDeadLetter(deps, pathParameter(request, 'id'), request.context)
      if (whole === null) throw new Error('bug: a dead letter without its row')
      answer(response, 200, `{"job":${documentFor(request, whole)}}`)
    },
  }
}

/** What both dialects have; they differ in the answer to a deletion. */
function bothRoutes(door: Door, path: string): Endpoint[] {
  const of = (about: Description) => under(path, [DEAD_LETTER, ADMIN], about)
  return [
    {
      method: 'GET',
      path: `${path}/stats`,
      about: of(DEAD_LETTER_STATS),
      access: ['operator', 'reader'],
      scoping: 'own',
      async handle(request, response) {
        const queues = queuesOf(request, door.deps.clock.now())
        const stats = await deadLetterStats(door.deps, queues, request.context)
        answer(response, 200, JSON.stringify(statsDocument(stats)))
      },
    },
    ...manyRoutes(door, path, of),
    ...oneByOneRoutes(door, path, of),
  ]
}

type Of = (about: Description) => Description

/** Bulk retry and purge. */
function manyRoutes(door: Door, path: string, of: Of): Endpoint[] {
  const { deps } = door
  const read = (request: Request, response: Response) =>
    readOptionalJson(request, response, deps.settings.maxBodyBytes)
  const purge: Endpoint = {
    method: 'DELETE',
    path,
    about: of(PURGE_DEAD_LETTERS),
    access: [],
    scoping: 'own',
    async handle(request, response) {
      const body = together(request, await read(request, response))
      const asked = deadLetterPurge(body, deps.clock.now(), request.context)
      await answerAdmin(door, request, response, asked)
    },
  }
  // The number of an alias stays at the end.
  const id = purge.about.id.replace(/(\d*)$/, 'ByPost$1')
  return [
    {
      method: 'POST',
      path: `${path}/retry`,
      about: of(RETRY_DEAD_LETTERS),
      access: ['operator'],
      scoping: 'own',
      async handle(request, response) {
        const body = await read(request, response)
        const asked = deadLetterRetry(body, deps.clock.now(), request.context)
        await answerAdmin(door, request, response, asked)
      },
    },
    purge,
    {
      ...purge,
      method: 'POST',
      path: `${path}/purge`,
      about: { ...purge.about, id },
    },
  ]
}

function oneByOneRoutes({ deps }: Door, path: string, of: Of): Endpoint[] {
  const common = { access: ['operator'], scoping: 'job' } as const
  return [
    {
      ...common,
      method: 'POST',
      path: `${path}/:id/retry`,
      about: of(RETRY_DEAD_LETTER),
      async handle(request, response) {
        const { maxBodyBytes } = deps.settings
        const override = overrideIn(await readOptionalJson(request, response, maxBodyBytes))
        const id = pathParameter(request, 'id')
        const { context } = request
        const job =
          override == null
            ? await retryDeadLetter(deps, id, context)
            : await retryChanged(deps, id, override, context)
        const document = jobDocument(job).slice(0, -1)
        const at = timestamp(job.enqueuedAt)
        answer(response, 200, `{"job":${document},"re_enqueued_at":"${at}"}}`)
      },
    },
    {
      ...common,
      method: 'DELETE',
      path: `${path}/:id`,
      about: path === ADMIN ? DELETE_ADMIN_DEAD_LETTER : DELETE_DEAD_LETTER,
      async handle(request, response) {
        const id = pathParameter(request, 'id')
        await deleteDeadLetter(deps, id, request.context)
        if (path === ADMIN) answerEmpty(response)
        else answer(response, 200, JSON.stringify({ deleted: true, job_id: id }))
      },
    },
  ]
}

/** The queues that are to be counted. Throws 400 for other filters: the counts are kept by queue. */
function queuesOf(request: Request, now: number): readonly string[] {
  const members = filterMembers(request)
  for (const name of Object.keys(members)) {
    if (name === 'queue') continue
    throw invalidField(
      name,
      `Dead letters are counted by 'queue' only, not by '${echoed(name)}'.`,
      {
        expected: ['queue'],
      },
    )
  }
  return deadLetterFilter(members, now).queues
}

type Found = Awaited<ReturnType<typeof listDeadLetters>>

function find(deps: Door['deps'], request: Request, page: Page, isWhole: boolean): Promise<Found> {
  refuseFarOffset(request, page)
  const filter = deadLetterFilter(filterMembers(request), deps.clock.now())
  refuseWithheld(request, filter)
  const { limit, offset } = page
  const place = { after: placeOf(page), offset, limit, isWhole }
  return listDeadLetters(deps, filter, place, request.context)
}

/** As the seed has it, with the cursor to the next page beside it. */
function listPagination(request: Request, page: Page, found: Found): object {
  const { jobs, total } = found
  const shown = shortened(page, jobs.length, total.count)
  const told = searchPagination(request, shown, found)
  // A page of no jobs has no place, and tells all the same whether there are any.
  return page.position === undefined && page.limit === 0
    ? { ...told, ...pagination(shown, total.count) }
    : told
}

function statsDocument(stats: Awaited<ReturnType<typeof deadLetterStats>>): object {
  const { total, byQueue, byType, byErrorType, oldestAt, newestAt, searched } = stats
  return {
    total,
    by_queue: topOf(byQueue),
    by_type: topOf(byType),
    by_error_type: topOf(byErrorType),
    ...(oldestAt !== null && { oldest_at: timestamp(oldestAt) }),
    ...(newestAt !== null && { newest_at: timestamp(newestAt) }),
    ...(searched !== null && { stats_are_partial: true, searched }),
  }
}

const MAX_KEYS = 100

/** The most frequent ones, and the others together. */
function topOf(counts: ReadonlyMap<string | null, number>): Record<string, number> {
  const sorted = [...counts].sort(([, a], [, b]) => b - a)
  const shown = sorted.slice(0, MAX_KEYS).map(([name, count]) => [name ?? 'Unknown', count])
  const rest = sorted.slice(MAX_KEYS).reduce((sum, [, count]) => sum + count, 0)
  const top = Object.fromEntries(shown) as Record<string, number>
  return rest > 0 ? { ...top, other: rest } : top
}

/** Nothing of an action is a page of a list: `limit` bounds it, and `offset` or `sort` must not be ignored. */
const NO_OTHERS: ReadonlySet<string> = new Set()
const FLAGS = new Set(['confirm', 'dry_run', 'async'])

/**
 * The members of a body and of the query, since proxies drop the bodies of DELETE. 400 if both have one, with
 * other values.
 */
function together(request: Request, body: Record<string, unknown>): Record<string, unknown> {
  const asked = Object.entries(filterMembers(request, NO_OTHERS)).map(([name, text]) => {
    const value = FLAGS.has(name) ? flagOf(text) : name === 'limit' ? Number(text) : text
    if (Object.hasOwn(body, name) && body[name] !== value) {
      throw invalidField(name, `The '${name}' in the body and in the query differ.`)
    }
    return [name, value] as const
  })
  return { ...body, ...Object.fromEntries(asked) }
}

function flagOf(text: unknown): unknown {
  if (text === 'true') return true
  return text === 'false' ? false : text
}
