import fc from 'fast-check'
import { BODIES, SEGMENTS } from './hostile-bodies.ts'

/** One request with a body that no honest client sends. */
export interface Input {
  readonly path: string
  readonly what: string
  readonly body: Buffer
  readonly contentType: string
}

type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }
type Keys = readonly (string | number)[]

const OJS = 'application/openjobspec+json'
const MIB = 2 ** 20

const WRONG: readonly Json[] = [
  ...[null, true, false, 0, -1, 1.5, 2 ** 31, 1e21, 1e308],
  ...['', 'x', ' ', '\u0000', '\ud800', '-1', 'PT1S', '2026-13-40T99:99:99Z', '9'.repeat(400)],
  ...[[], [[]], [null], ['x'], {}, { x: {} }, { length: -1 }, { toString: 1 }],
]

const POISON: readonly string[] = ['__proto__', 'constructor', 'prototype', 'hasOwnProperty']

const random = fc.jsonValue({ maxDepth: 4, noUnicodeString: false })

/** All inputs for one endpoint, at least `count`. A seed gives always the same ones. */
export function inputsFor(path: keyof typeof BODIES, count: number, seed: number): Input[] {
  const bodies = BODIES[path] as readonly Json[]
  const texts = bodies.flatMap((body) => [
    ...wrongTypes(body),
    ...poisoned(body),
    ...truncated(body),
    ...huge(body),
    ...deep(body),
  ])
  texts.push(...notJson())
  const missing = Math.max(300, count - texts.length)
  texts.push(...randomTexts(bodies, missing, seed))
  return texts.map(({ what, text, contentType = OJS }, i) => ({
    path: pathFor(path, i),
    what,
    body: typeof text === 'string' ? Buffer.from(text) : text,
    contentType,
  }))
}

interface Text {
  what: string
  text: string | Buffer
  contentType?: string
}

function pathFor(path: string, i: number): string {
  return path.replace(/:(id|name)/, () => SEGMENTS[i % SEGMENTS.length] ?? 'x')
}

function* wrongTypes(body: Json): Generator<Text> {
  for (const keys of pathsOf(body)) {
    for (const value of WRONG) {
      yield { what: `${keys.join('.')} = ${show(value)}`, text: stringify(body, keys, value) }
    }
    yield { what: `without ${keys.join('.')}`, text: stringify(body, keys, undefined) }
  }
}

/** Made as text, because an object literal would take `__proto__` for its prototype. */
function* poisoned(body: Json): Generator<Text> {
  for (const keys of [[], ...pathsOf(body)]) {
    if (!isObject(at(body, keys))) continue
    for (const name of POISON) {
      const given = JSON.stringify(at(body, keys)).slice(1)
      const separator = given === '}' ? '' : ','
      for (const value of ['{"polluted":true}', 'null', '"x"']) {
        const mark = '\u0001poison'
        const inner = `{"${name}":${value}${separator}${given}`
        const text = stringify(body, keys, mark).replace(JSON.stringify(mark), () => inner)
        yield { what: `${name} in ${keys.join('.') || 'the body'}`, text }
      }
    }
  }
}

function* truncated(body: Json): Generator<Text> {
  const text = JSON.stringify(body)
  const step = Math.max(1, Math.floor(text.length / 150))
  for (let end = 1; end < text.length; end += step) {
    yield { what: `cut after ${end} bytes`, text: text.slice(0, end) }
  }
}

function* huge(body: Json): Generator<Text> {
  const long = 'x'.repeat(MIB)
  for (const key of isObject(body) ? Object.keys(body) : []) {
    yield { what: `1 MiB in ${key}`, text: stringify(body, [key], long) }
    yield { what: `1 MiB in a list in ${key}`, text: stringify(body, [key], [long]) }
  }
  yield { what: 'a key of 1 MiB', text: JSON.stringify({ ...(body as object), [long]: 1 }) }
  yield { what: '1 MiB of numbers', text: `[${'1,'.repeat(MIB / 2)}1]` }
  yield { what: '1 MiB of escapes', text: `{"type":"${'\\u0000'.repeat(MIB / 6)}"}` }
}

function* deep(body: Json): Generator<Text> {
  const first = isObject(body) ? Object.keys(body).at(0) : undefined
  for (const depth of [20, 100, 101, 1_000, 10_000, 200_000]) {
    const list = '['.repeat(depth) + ']'.repeat(depth)
    const object = `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`
    for (const nested of [list, object, '['.repeat(depth), '{"a":'.repeat(depth)]) {
      yield { what: `${depth} levels`, text: nested }
      if (first === undefined) continue
      const text = stringify(body, [first], 'HERE').replace('"HERE"', () => nested)
      yield { what: `${depth} levels in ${first}`, text }
    }
  }
}

function* notJson(): Generator<Text> {
  const texts = ['', ' ', 'null', 'true', '1', '"x"', '[]', '{', '}', '{}x', "{'a':1}", '{"a":1,}']
  const more = [
    'NaN',
    '{"a":Infinity}',
    '{"a":01}',
    '{"a":1}{"a":1}',
    '// x\n{}',
    '\ufeff',
    '{"a"}',
  ]
  for (const text of [...texts, ...more]) yield { what: `the text ${show(text)}`, text }
  yield { what: 'bytes that are no UTF-8', text: Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x7d]) }
  yield { what: 'UTF-16', text: Buffer.from('{"type":"a","args":[]}', 'utf16le') }
  for (const contentType of ['text/plain', 'application/xml', 'x', 'application/json; charset=x']) {
    yield { what: `Content-Type ${contentType}`, text: '{}', contentType }
  }
}

function randomTexts(bodies: readonly Json[], count: number, seed: number): Text[] {
  const half = Math.ceil(count / 2)
  const whole = fc.sample(random, { numRuns: half, seed }).map((value): Text => {
    return { what: 'random JSON', text: JSON.stringify(value) }
  })
  const places = fc.tuple(
    fc.nat(),
    fc.array(fc.tuple(fc.nat(), random), { minLength: 1, maxLength: 3 }),
  )
  const partly = fc.sample(places, { numRuns: half, seed }).map(([which, changes]): Text => {
    let body: Json = bodies[which % bodies.length] ?? {}
    for (const [where, value] of changes) {
      const paths = pathsOf(body)
      body = JSON.parse(
        stringify(body, paths[where % paths.length] ?? ['x'], value as Json),
      ) as Json
    }
    return { what: 'random values', text: JSON.stringify(body) }
  })
  return [...whole, ...partly]
}

/** The keys that lead to each place in the value, outer places first. */
function pathsOf(value: Json, keys: Keys = []): Keys[] {
  if (typeof value !== 'object' || value === null) return []
  const names = Array.isArray(value) ? value.map((_, i) => i) : Object.keys(value)
  return names.flatMap((name) => {
    const here = [...keys, name]
    return [here, ...pathsOf(at(value, [name]) ?? null, here)]
  })
}

function at(value: Json, keys: Keys): Json | undefined {
  let found: Json | undefined = value
  for (const key of keys) found = (found as Record<string, Json> | undefined)?.[key]
  return found
}

function isObject(value: Json | undefined): value is { readonly [key: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The text of `body` with another value at one place, or without that place. */
function stringify(body: Json, keys: Keys, value: Json | undefined): string {
  return JSON.stringify(replaced(body, keys, value)) ?? 'null'
}

function replaced(body: Json, keys: Keys, value: Json | undefined): Json | undefined {
  const [key, ...rest] = keys
  if (key === undefined) return value
  const copy = structuredClone(body) as Record<string | number, Json | undefined>
  const inner = at(body, [key])
  copy[key] = replaced(inner === undefined ? {} : inner, rest, value)
  return copy as Json
}

function show(value: Json): string {
  return JSON.stringify(value).slice(0, 40)
}
