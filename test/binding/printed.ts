import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import type { Answer } from '../support/gateway/in-process.ts'

/** Every answer that seed 001 prints, by section and status: `9.1 409`; `10.3 200 (2)` is its second. */
const PRINTED: Readonly<Record<string, { headers: Record<string, string>; body: Json }>> =
  JSON.parse(readFileSync(join(import.meta.dirname, 'printed.json'), 'utf8'))

type Json = null | boolean | number | string | Json[] | { [key: string]: Json }

/** Members whose printed value is part of the binding and not only an example. */
const FIXED = new Set([
  ...['code', 'retryable', 'state', 'previous_state', 'current_state', 'expected_state', 'status'],
  ...['resource_type', 'acknowledged', 'deleted', 'field', 'expected', 'received', 'validation'],
  ...['attempt', 'index', 'has_more'],
])

/** Members that the client chooses, or whose printed value is only an example: just the type is compared. */
const FREE = new Set(['args', 'meta', 'result', 'schema', 'options', 'message', 'version', 'type'])

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

/**
 * Expects the printed status and headers, and every member of the printed body with its type. Members in
 * `FIXED` (`state`, `code` …) must have the printed value. Further members are allowed. `but` holds the
 * exceptions: the value that is expected instead, by path.
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
  if (path in but) return unlessEqual(but[path], actual, path)
  if (typeOf(printed) !== typeOf(actual)) return [`${path} is ${typeOf(actual)}`]
  if (FREE.has(key)) return []
  if (FIXED.has(key) && typeof printed !== 'object') {
    // In the stats of a queue `retryable` is a number, which is free. In an error it is a boolean.
    return key === 'retryable' && typeof printed === 'number'
      ? []
      : unlessEqual(printed, actual, path)
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

/** Compares each item with the printed one at its index, and further items with the last printed one. */
function differencesInList(
  printed: readonly Json[],
  actual: readonly unknown[],
  path: string,
  but: Readonly<Record<string, unknown>>,
): string[] {
  const last = printed.at(-1)
  if (last === undefined) return unlessEqual([], actual, path)
  if (actual.length === 0) return [`${path} is empty`]
  return actual.flatMap((item, i) =>
    differences(printed[i] ?? last, item, path === '' ? String(i) : `${path}.${i}`, but),
  )
}

function unlessEqual(wanted: unknown, actual: unknown, path: string): string[] {
  const isEqual = JSON.stringify(wanted) === JSON.stringify(actual)
  return isEqual ? [] : [`${path} is ${JSON.stringify(actual)}, not ${JSON.stringify(wanted)}`]
}

function typeOf(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}
