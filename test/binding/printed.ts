import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import type { Answer } from '../support/in-process.ts'

/** Every answer that seed 001 prints, by section and status: `9.1 409`; `10.3 200 (2)` is its second. */
const PRINTED: Readonly<Record<string, { headers: Record<string, string>; body: Json }>> =
  JSON.parse(readFileSync(join(import.meta.dirname, 'printed.json'), 'utf8'))

type Json = null | boolean | number | string | Json[] | { [key: string]: Json }

/** Where the value itself is part of the binding, and not an example. */
const FIXED = new Set([
  ...['code', 'retryable', 'state', 'previous_state', 'current_state', 'expected_state', 'status'],
  ...['resource_type', 'acknowledged', 'deleted', 'field', 'expected', 'received', 'validation'],
  ...['attempt', 'index', 'has_more'],
])

/** What is the client's own, or an example of what a server may say. */
const FREE = new Set(['args', 'meta', 'result', 'schema', 'options', 'message', 'version', 'type'])

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

/**
 * The answer has the status and the headers that are printed, and every member of the printed body
 * with its type; what says something (`state`, `code` …) with its value. More members are allowed.
 * `but`: what is different and why it may be, as paths to what stands there instead.
 */
export function expectAsPrinted(
  answer: Answer,
  key: string,
  but: Readonly<Record<string, unknown>> = {},
): void {
  const printed = PRINTED[key]
  if (printed === undefined) throw new Error(`seed 001 prints no answer ${key}`)
  expect(answer.status, JSON.stringify(answer.body)).toBe(Number(key.split(' ')[1]))
  for (const name of Object.keys(printed.headers)) {
    expect(answer.headers.get(name), name).toMatch(/./)
  }
  for (const name of ['Content-Type', 'OJS-Version']) {
    expect(answer.headers.get(name)).toBe(printed.headers[name])
  }
  const wrong = differences(printed.body, answer.body, '', but)
  expect(wrong, JSON.stringify(answer.body)).toEqual([])
  const requestId: unknown = answer.body.error?.request_id
  if (requestId !== undefined) expect(requestId).toBe(answer.headers.get('X-Request-Id'))
}

function differences(
  printed: Json,
  actual: unknown,
  path: string,
  but: Readonly<Record<string, unknown>>,
): string[] {
  const key = path.split('.').at(-1) ?? ''
  if (path in but) return same(but[path], actual, path)
  if (typeOf(printed) !== typeOf(actual)) return [`${path} is ${typeOf(actual)}`]
  if (FREE.has(key)) return []
  if (FIXED.has(key) && typeof printed !== 'object') {
    // A queue has so many that are `retryable`; an error either is or is not.
    return key === 'retryable' && typeof printed === 'number' ? [] : same(printed, actual, path)
  }
  if (Array.isArray(printed)) return differencesInList(printed, actual as unknown[], path, but)
  if (typeof printed === 'object' && printed !== null) {
    const found = actual as Record<string, unknown>
    return Object.entries(printed).flatMap(([name, value]) =>
      differences(value, found[name], path === '' ? name : `${path}.${name}`, but),
    )
  }
  const isTime = typeof printed === 'string' && TIME.test(printed)
  return isTime && !TIME.test(String(actual)) ? [`${path} is no time: ${actual}`] : []
}

/** Each is like the printed one in its place; more than are printed, like the last. */
function differencesInList(
  printed: readonly Json[],
  actual: readonly unknown[],
  path: string,
  but: Readonly<Record<string, unknown>>,
): string[] {
  const last = printed.at(-1)
  if (last === undefined) return same([], actual, path)
  if (actual.length === 0) return [`${path} is empty`]
  return actual.flatMap((item, i) =>
    differences(printed[i] ?? last, item, path === '' ? String(i) : `${path}.${i}`, but),
  )
}

function same(wanted: unknown, actual: unknown, path: string): string[] {
  const isSame = JSON.stringify(wanted) === JSON.stringify(actual)
  return isSame ? [] : [`${path} is ${JSON.stringify(actual)}, not ${JSON.stringify(wanted)}`]
}

function typeOf(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}
