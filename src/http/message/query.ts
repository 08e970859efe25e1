/** Query parameters: integers, flags and sets. */
import type { Request } from 'express'
import { echoed, invalidField, type OjsError } from '../../errors.ts'

const MAX_LIST_LENGTH = 100

/** Reads an integer, clamped to the largest safe one. Throws 400 for anything but an integer ≥ 0. */
export function integer(request: Request, name: string, fallback: number): number {
  const text = first(request, name)
  if (text === undefined) return fallback
  if (/^\d+$/.test(text)) return Math.min(Number(text), Number.MAX_SAFE_INTEGER)
  throw invalidField(name, `The '${name}' parameter must be an integer of at least 0.`, {
    received: echoed(text),
  })
}

/** Reads `true` or `false`; absent: false. Throws 400 for anything else, for an empty value too. */
export function flag(request: Request, name: string): boolean {
  const text = filterText(request, name)
  if (text === null || text === 'false') return false
  if (text === 'true') return true
  throw invalidField(name, `The '${name}' parameter must be true or false.`, {
    received: echoed(text),
  })
}

/** Reads `a,b,c` as a set; empty only when the parameter is absent. Throws 400 if it names nothing. */
export function list(request: Request, name: string): Set<string> {
  const text = filterText(request, name)
  if (text === null) return new Set()
  const items = text.split(',').map((item) => item.trim())
  const set = new Set(items.filter((item) => item !== ''))
  if (set.size === 0) throw emptyValue(name)
  if (set.size <= MAX_LIST_LENGTH) return set
  throw invalidField(name, `The '${name}' parameter must list at most ${MAX_LIST_LENGTH} values.`)
}

/** Null only when the parameter is absent. Empty, it would mean all and not the few that were meant: 400. */
export function filterText(request: Request, name: string): string | null {
  const text = first(request, name)
  if (text === '') throw emptyValue(name)
  return text ?? null
}

export function emptyValue(name: string): OjsError {
  return invalidField(name, `The '${echoed(name)}' parameter must not be empty.`)
}

/** For what selects nothing, as a cursor: null when the parameter is absent or empty. */
export function parameter(request: Request, name: string): string | null {
  return first(request, name) || null
}

/** Of a repeated parameter, the first counts. */
function first(request: Request, name: string): string | undefined {
  const value = request.query[name]
  const text = Array.isArray(value) ? value[0] : value
  return typeof text === 'string' ? withoutNul(text) : undefined
}

/** Replaces NULs in a path or query: the ledger would read only up to a NUL, and find another row. */
export function withoutNul(text: string): string {
  return text.replaceAll('\0', '\ufffd')
}
