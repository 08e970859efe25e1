import type { Request } from 'express'
import { echoed, invalidField } from '../errors.ts'

const MAX_LIST_LENGTH = 100

export interface Page {
  limit: number
  offset: number
}

/**
 * `limit` and `offset` of every list (seed 001 §17): too much is clamped, nonsense is a 400. A limit
 * of 0 is an empty page, for whoever wants the total only.
 */
export function pageOf(request: Request): Page {
  return {
    limit: Math.min(integer(request, 'limit', 50), 100),
    offset: integer(request, 'offset', 0),
  }
}

/** The page that a list has become where the things in it were too large for all: `shown` of them. */
export function shortened(page: Page, shown: number, total: number): Page {
  const isCut = shown > 0 && shown < page.limit && page.offset + shown < total
  return isCut ? { ...page, limit: shown } : page
}

/** What a list says of itself (seed 001 §17.2). */
export function pagination({ limit, offset }: Page, total: number): object {
  return { total, limit, offset, has_more: offset + limit < total }
}

/** Clamped to what a number holds. Throws 400 when it is there and is no integer from 0 on. */
export function integer(request: Request, name: string, fallback: number): number {
  const text = first(request, name)
  if (text === undefined) return fallback
  if (/^\d+$/.test(text)) return Math.min(Number(text), Number.MAX_SAFE_INTEGER)
  throw invalidField(name, `The '${name}' parameter must be an integer from 0 on.`, {
    received: echoed(text),
  })
}

/** `a,b,c` as a set; empty when the parameter is not there. */
export function list(request: Request, name: string): Set<string> {
  const items = (parameter(request, name) ?? '').split(',').map((item) => item.trim())
  const set = new Set(items.filter((item) => item !== ''))
  if (set.size <= MAX_LIST_LENGTH) return set
  throw invalidField(name, `The '${name}' parameter may name ${MAX_LIST_LENGTH} things at most.`)
}

/** Null when it is not there or empty. */
export function parameter(request: Request, name: string): string | null {
  return first(request, name) || null
}

/** Given twice, the first one counts. */
function first(request: Request, name: string): string | undefined {
  const value = request.query[name]
  const text = Array.isArray(value) ? value[0] : value
  return typeof text === 'string' ? withoutNul(text) : undefined
}

/** Of a path or a query: the ledger would read it up to a NUL, and find something else. */
export function withoutNul(text: string): string {
  return text.replaceAll('\0', '\ufffd')
}
