/** Lists of jobs by filter, for both dialects, and the whole job of the Admin API. */
import type { Request } from 'express'
import { echoed, invalidField, notFound, OjsError } from '../../errors.ts'
import { ANY_JOB, type JobFilter } from '../../job/search/filter.ts'
import { parseJobFilter, separated } from '../../operations/search/parse-filter.ts'
import {
  type JobOrder,
  type SearchPage,
  type SearchResult,
  searchJobs,
} from '../../operations/search/search.ts'
import { mayReadPayloads } from '../access/roles.ts'
import {
  adminPageOf,
  cursorPagination,
  MAX_OFFSET,
  type Page,
  pageOf,
  refuseFarOffset,
} from '../message/page.ts'
import { emptyValue, list, parameter, withoutNul } from '../message/query.ts'
import { answer } from '../message/respond.ts'
import { FIND_JOBS, GET_ADMIN_JOB, LIST_ADMIN_JOBS } from '../openapi/job-search.ts'
import { type Endpoint, pathParameter } from '../route.ts'
import { documentsFor, type Included, jobDetail, jobItem } from './job-documents.ts'
import type { Door } from './route-deps.ts'

const ORDERS: readonly JobOrder[] = ['created_at', 'scheduled_at', 'priority', 'updated_at']
const INCLUDES = ['args', 'meta']
/** Parameters that are no filters. */
const OTHERS = new Set([
  'limit',
  'offset',
  'page',
  'per_page',
  'cursor',
  'sort',
  'order',
  'include',
])

/** Finds jobs (OJS admin API; not part of the seeds). */
export function jobSearchRoutes(door: Door): Endpoint[] {
  return [
    {
      method: 'GET',
      path: '/ojs/v1/jobs',
      about: FIND_JOBS,
      access: ['operator', 'reader'],
      scoping: 'own',
      async handle(request, response) {
        const page = pageOf(request)
        const found = await find(door, request, page, true)
        const jobs = documentsFor(request, found.jobs)
        const end = JSON.stringify(paginationOf(request, page, found))
        const { count } = found.total
        answer(response, 200, `{"jobs":${jobs},"total":${count},"pagination":${end}}`)
      },
    },
    {
      method: 'GET',
      path: '/ojs/v1/admin/jobs',
      about: LIST_ADMIN_JOBS,
      access: ['operator', 'reader'],
      scoping: 'own',
      async handle(request, response) {
        const page = adminPageOf(request)
        const included = includedOf(request)
        const found = await find(door, request, page, included.args || included.meta)
        const items = found.jobs.map((job) => jobItem(job, included))
        const pagination = paginationOf(request, page, found)
        answer(response, 200, JSON.stringify({ items, pagination }))
      },
    },
    {
      method: 'GET',
      path: '/ojs/v1/admin/jobs/:id',
      about: GET_ADMIN_JOB,
      access: ['operator', 'reader'],
      scoping: 'job',
      async handle(request, response) {
        const id = pathParameter(request, 'id')
        const only = { ...ANY_JOB, ids: [id] }
        const { jobs } = await searchJobs(door.deps, only, ONE, request.context)
        const [job] = jobs
        if (job === undefined) throw notFound('job', id)
        answer(response, 200, jobDetail(job, !mayReadPayloads(request.admission)))
      },
    },
  ]
}

const ONE: SearchPage = {
  order: 'created_at',
  isAscending: false,
  after: null,
  offset: 0,
  limit: 1,
  isWhole: true,
}

/** `isWhole`: each job with its texts. */
function find(
  { deps }: Door,
  request: Request,
  page: Page,
  isWhole: boolean,
): Promise<SearchResult> {
  refuseFarOffset(request, page)
  const filter = filterOf(request, deps.clock.now())
  const { limit, offset } = page
  const place = { after: placeOf(page), offset, limit, isWhole }
  return searchJobs(deps, filter, { ...orderOf(request), ...place }, request.context)
}

/** A page that was cut, because its jobs are large, has a smaller limit, so that the next offset is right. */
function paginationOf(request: Request, page: Page, found: SearchResult): object {
  const { next, jobs } = found
  const isCut = next !== null && jobs.length > 0 && jobs.length < page.limit
  return searchPagination(request, isCut ? { ...page, limit: jobs.length } : page, found)
}

/** The `pagination` member of what a search has found. */
export function searchPagination(request: Request, page: Page, found: SearchResult): object {
  const { total, next, searched } = found
  const told = cursorPagination(request, page, { total: total.count, isBound: total.isBound, next })
  return searched === null ? told : { ...told, search_is_partial: true, searched }
}

/**
 * The parameters that are filters: all but the `others`. Throws 400 for an empty one. The values of `name[]` are
 * taken as they are, so that a tag may have a comma; other values may be lists.
 */
export function filterMembers(
  { query }: Request,
  others: ReadonlySet<string> = OTHERS,
): Record<string, unknown> {
  const given = new Map<string, Value[]>()
  for (const [parameterName, value] of Object.entries(query)) {
    if (others.has(parameterName)) continue
    const texts = [value].flat().map(clean)
    if (texts.includes('')) throw emptyValue(parameterName)
    const isExact = parameterName.endsWith(EXACT)
    const name = isExact ? parameterName.slice(0, -EXACT.length) : parameterName
    const values = texts.map((text) => ({ text, isExact }))
    given.set(name, [...(given.get(name) ?? []), ...values])
  }
  return Object.fromEntries([...given].map(([name, values]) => [name, memberOf(values)]))
}

const EXACT = '[]'

interface Value {
  text: unknown
  isExact: boolean
}

/** One text may be a list or not, as its reader knows. */
function memberOf(values: readonly Value[]): unknown {
  const [only] = values
  if (values.length === 1 && only?.isExact === false) return only.text
  return values.flatMap(({ text, isExact }) => (isExact ? [text] : separated(text)))
}

function filterOf(request: Request, now: number): JobFilter {
  const filter = parseJobFilter(filterMembers(request), now)
  refuseWithheld(request, filter)
  return filter
}

/** By asking often enough, one could read the texts of a job from what finds it: 403. */
export function refuseWithheld({ admission }: Request, { text }: JobFilter): void {
  if (mayReadPayloads(admission)) return
  if (text.args !== undefined) throw withheldField('args')
  if (text.errorPattern !== null) throw withheldField('error_pattern')
}

function clean(value: unknown): unknown {
  return typeof value === 'string' ? withoutNul(value) : value
}

function orderOf(request: Request): Pick<SearchPage, 'order' | 'isAscending'> {
  const order = oneOf(request, 'sort', ORDERS) ?? 'created_at'
  return { order, isAscending: oneOf(request, 'order', ['asc', 'desc']) === 'asc' }
}

function oneOf<T extends string>(request: Request, name: string, words: readonly T[]): T | null {
  const text = parameter(request, name)
  const word = words.find((known) => known === text)
  if (word !== undefined || text === null) return word ?? null
  throw invalidField(name, `The '${name}' parameter must be one of ${words.join(', ')}.`, {
    expected: [...words],
    received: echoed(text),
  })
}

/** Throws 400 for an unknown name, 403 for `args` that are withheld from the caller. */
function includedOf(request: Request): Included {
  const mayRead = mayReadPayloads(request.admission)
  const isAsked = parameter(request, 'include') !== null
  const names = isAsked ? list(request, 'include') : new Set<string>()
  const unknown = [...names].find((name) => !INCLUDES.includes(name))
  if (unknown !== undefined) {
    throw invalidField('include', "The 'include' parameter must name args or meta.", {
      expected: [...INCLUDES],
      received: echoed(unknown),
    })
  }
  if (names.has('args') && !mayRead) throw withheldField('include')
  return { args: names.has('args'), meta: names.has('meta'), texts: mayRead }
}

function withheldField(field: string): OjsError {
  return new OjsError('x_forbidden', 'The texts of jobs are withheld from this role.', {
    details: { reason: 'payload_withheld', field },
  })
}

export function placeOf({ position }: Page): SearchPage['after'] {
  if (position === undefined) return null
  const [value, row, ...open] = position
  const [toSkip = 0, looked = 0] = open
  const isOpen = open.length === 2 && toSkip >= 0 && toSkip <= MAX_OFFSET && looked >= 0
  if (value === undefined || row === undefined || (open.length > 0 && !isOpen)) {
    throw invalidField('cursor', "The 'cursor' parameter is no cursor.")
  }
  return [value, row, ...open]
}
