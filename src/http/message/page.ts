/** The one reader and the one writer of pages, for all lists. */
import { createHash } from 'node:crypto'
import type { Request } from 'express'
import { invalidField, OjsError } from '../../errors.ts'
import { integer, parameter } from './query.ts'

const MAX_LIMIT = 100
/** Beyond it a list of jobs is read by cursor: rows that are skipped have to be read. */
export const MAX_OFFSET = 10_000

/** Which page a client asked for. */
export interface Page {
  limit: number
  offset: number
  /** From 1; only if the client asked by `page` or `per_page`, or the list is one of the Admin API. */
  number?: number
  /** The numbers of the cursor that it asked by; then `offset` is 0. */
  position?: readonly number[]
}

/** The dialect of a list: that of the seeds, or that of OJS's Admin API. */
interface Style {
  /** Size of a page whose size the client does not name. */
  size: number
  isNumbered: boolean
}

const SEED: Style = { size: 50, isNumbered: false }
const ADMIN: Style = { size: 20, isNumbered: true }

/** The ways to ask for a page; a request must use one of them only. */
const WAYS = [
  ['limit', 'offset'],
  ['page', 'per_page'],
  ['cursor', 'limit'],
  ['cursor', 'per_page'],
]
const MEMBERS = new Set(WAYS.flat())

/**
 * Reads the page of a list: `limit` and `offset` (seed 001 §17), `page`, from 1, and `per_page`, or `cursor`
 * with a size. A mixture is a 400. Too large a size is clamped, a non-integer is a 400. A size of 0 yields an
 * empty page, for clients that want only the total.
 */
export function pageOf(request: Request): Page {
  return readPage(request, SEED)
}

/** The same for a list of the Admin API: 20 items, and numbered. */
export function adminPageOf(request: Request): Page {
  return readPage(request, ADMIN)
}

function readPage(request: Request, { size, isNumbered }: Style): Page {
  const asked = Object.keys(request.query).filter((name) => MEMBERS.has(name))
  refuseMixture(asked)
  const limit = Math.min(integer(request, 'limit', integer(request, 'per_page', size)), MAX_LIMIT)
  const cursor = parameter(request, 'cursor')
  if (cursor !== null) return { limit, offset: 0, position: readCursor(request, cursor) }
  if (!isNumbered && !asked.includes('page') && !asked.includes('per_page')) {
    return { limit, offset: integer(request, 'offset', 0) }
  }
  const number = Math.max(integer(request, 'page', 1), 1)
  const before = Math.min((number - 1) * limit, Number.MAX_SAFE_INTEGER)
  const offset = integer(request, 'offset', before)
  const numberOf = asked.includes('offset') && limit > 0 ? Math.floor(offset / limit) + 1 : number
  return { limit, offset, number: numberOf }
}

function refuseMixture(asked: readonly string[]): void {
  if (WAYS.some((way) => asked.every((name) => way.includes(name)))) return
  const field = asked.find((name) => name !== asked[0]) ?? ''
  throw invalidField(
    field,
    'A page is asked for by limit and offset, by page and per_page, or by cursor.',
    {
      expected: WAYS.map((way) => way.join(' and ')),
    },
  )
}

/** Refuses an offset that would have to read too many rows. For lists of jobs. */
export function refuseFarOffset({ query }: Request, { offset }: Page): void {
  if (offset <= MAX_OFFSET) return
  throw new OjsError('invalid_request', `Beyond ${MAX_OFFSET} items, follow next_cursor instead.`, {
    details: {
      field: query['offset'] === undefined ? 'page' : 'offset',
      reason: 'use_cursor',
      max_offset: MAX_OFFSET,
    },
  })
}

/** The page after its list was cut to `shown` items, because all of them together were too large. */
export function shortened(page: Page, shown: number, total: number): Page {
  const isCut = shown > 0 && shown < page.limit && page.offset + shown < total
  return isCut ? { ...page, limit: shown } : page
}

/** The `pagination` member of a list (seed 001 §17.2). */
export function pagination({ limit, offset, number }: Page, total: number): object {
  const asked = number === undefined ? {} : { page: number, per_page: limit }
  return { total, limit, offset, ...asked, has_more: offset + limit < total }
}

/** What a list that has cursors knows about its page. */
export interface Shown {
  total: number
  /** True: there are more than `total`. */
  isBound: boolean
  /** The numbers of the cursor to the next page; null: this is the last. */
  next: readonly number[] | null
}

/** The `pagination` member of a list with cursors; `next_cursor` is there exactly if there is more. */
export function cursorPagination(request: Request, page: Page, shown: Shown): object {
  const { limit, offset, number } = page
  const { total, isBound, next } = shown
  return {
    total,
    ...(isBound && { total_is_lower_bound: true }),
    limit,
    ...(page.position === undefined && { offset }),
    ...(number !== undefined && { page: number, per_page: limit }),
    has_more: next !== null,
    ...(next !== null && { next_cursor: writeCursor(request, next) }),
  }
}

/**
 * For a list that is in memory as a whole: its cursor is the place of the next item. `isBound`: there are more
 * than `total`, which are not listed.
 */
export function memoryPagination(
  request: Request,
  page: Page,
  total: number,
  isBound = false,
): object {
  const end = startOf(page) + page.limit
  const next = end < total && page.limit > 0 ? [end] : null
  return cursorPagination(request, page, { total, isBound, next })
}

/** The first item's place in a list that is in memory as a whole. */
export function startOf({ offset, position }: Page): number {
  return position?.[0] ?? offset
}

const HASH_LENGTH = 11
const POSITION = /^-?\d{1,16}(?:\.-?\d{1,16}){0,3}$/

/** Opaque: a hash of what the list was asked for, and the position in it. */
function writeCursor(request: Request, position: readonly number[]): string {
  return Buffer.from(`${listHash(request)}${position.join('.')}`).toString('base64url')
}

/** Throws 400 for a cursor that is none, or of a list with other filters or another order. */
function readCursor(request: Request, cursor: string): number[] {
  const text = Buffer.from(cursor.slice(0, 200), 'base64url').toString('latin1')
  const numbers = text.slice(HASH_LENGTH)
  if (!POSITION.test(numbers)) throw invalidField('cursor', "The 'cursor' parameter is no cursor.")
  if (text.slice(0, HASH_LENGTH) !== listHash(request)) {
    throw new OjsError('invalid_request', 'The cursor is of a list with other filters or order.', {
      details: { field: 'cursor', reason: 'cursor_of_another_list' },
    })
  }
  return numbers.split('.').map(Number)
}

/** Of the path and all parameters that are no part of the page and do not only choose members. */
function listHash(request: Request): string {
  const asked = Object.entries(request.query)
    .filter(([name]) => !MEMBERS.has(name) && name !== 'include')
    .sort(([a], [b]) => (a < b ? -1 : 1))
  const text = JSON.stringify([request.path, asked])
  return createHash('sha256').update(text).digest('base64url').slice(0, HASH_LENGTH)
}
