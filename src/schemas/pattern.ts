import { RE2JS } from 're2js'
import { messageOf } from '../errors.ts'
import { inRe2 } from './ecma-pattern.ts'
import type { Fuel } from './fuel.ts'
import { SchemaFault } from './schema-fault.ts'

const MAX_PATTERN_LENGTH = 1_000
/**
 * Instructions of all patterns of one schema; `[a-z]{1000}` has a thousand, `^[a-z]+$` five. Each
 * is a microsecond of compiling.
 */
const MAX_PROGRAM = 10_000

/**
 * An instruction, and of its class each character as it is written. A property of Unicode is hundreds of
 * ranges, which an anchored pattern has anew in each instruction: `^\p{L}{1,255}$` takes 2 MB.
 */
const BYTES = { instruction: 400, written: 4, property: 9_000 }
/**
 * For each instruction, of what RE2 keeps of the texts so far (`forgetStates`), beside as much as the
 * program has. Plain patterns need less; `(a|b)*a(a|b){20}c` needs all that it gets.
 */
const KEPT_BYTES = 2_000
const CLASSES = /\[(?:\\.|[^\]\\])*\]/gs
const PROPERTY = /\\p/i

/** Of `RegExp`, what Ajv uses. */
interface Matcher {
  test(text: string): boolean
  /** Ajv takes two patterns for one when this is the same. */
  toString(): string
}

export interface PatternEngine {
  (source: string): Matcher
  /** What Ajv would write into code that stands alone; there is none here. */
  readonly code: string
  /** What its patterns take of memory, roughly, as they are compiled. */
  bytes(): number
  /** What matching may leave beside that, at most. */
  keptBytes(): number
}

/**
 * The patterns of one schema, on an engine whose time is linear in the text whatever the pattern
 * (RE2). It speaks ECMA-262 but for look-around and back-references (`ecma-pattern.ts`). Throws
 * `SchemaFault`.
 */
export function linearPatterns(fuel: () => Fuel): PatternEngine {
  let total = 0
  let bytes = 0
  let keptBytes = 0
  const engine = (source: string): Matcher => {
    const program = compile(source)
    const size = program.programSize()
    total += size
    if (total > MAX_PROGRAM) throw new SchemaFault('its patterns are too large')
    const own = size * bytesOfInstruction(source)
    const mostKept = keepsStates(program) ? own + KEPT_BYTES * size : 0
    bytes += own
    keptBytes += mostKept
    return {
      test(text) {
        // The worst case is a walk through the whole program for every character.
        fuel().take(2 * text.length * size)
        const isMatch = program.test(text)
        forgetStates(program, mostKept)
        return isMatch
      },
      toString: () => source,
    }
  }
  return Object.assign(engine, {
    code: 'linearPattern',
    bytes: () => bytes,
    keptBytes: () => keptBytes,
  })
}

/** Not what RE2 finds in one pass: then there is but one state at a time. */
function keepsStates(program: RE2JS): boolean {
  return program.re2().onepass === null
}

/** RE2 itself lets each pattern have 8 MB of them for ever, and a schema has hundreds of patterns. */
function forgetStates(program: RE2JS, mostKept: number): void {
  const { lazyDFA } = program.re2()
  if (lazyDFA !== null && lazyDFA.stateBudget - lazyDFA.memBudget > mostKept) lazyDFA.clearCache()
}

function bytesOfInstruction(source: string): number {
  const classes = source.match(CLASSES) ?? []
  const written = Math.max(0, ...classes.map((one) => one.length))
  const properties = PROPERTY.test(source) ? BYTES.property : 0
  return BYTES.instruction + BYTES.written * written + properties
}

function compile(source: string): RE2JS {
  if (source.length > MAX_PATTERN_LENGTH) {
    throw new SchemaFault(`a pattern may have ${MAX_PATTERN_LENGTH} characters at most`)
  }
  try {
    return RE2JS.compile(RE2JS.translateRegExp(inRe2(source)))
  } catch (error) {
    if (error instanceof SchemaFault) throw error
    const reason = messageOf(error)
    throw new SchemaFault(`the pattern '${brief(source)}' cannot be used: ${reason}`)
  }
}

function brief(source: string): string {
  return source.length > 60 ? `${source.slice(0, 60)}…` : source
}
