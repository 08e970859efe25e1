/** Patterns on RE2, whose time is linear, with limits for their memory. */
import { RE2JS } from 're2js'
import { messageOf } from '../../errors.ts'
import type { CostBudget } from './cost-budget.ts'
import { inRe2 } from './ecma-pattern.ts'
import { SchemaFault } from './formats.ts'

const MAX_PATTERN_LENGTH = 1_000
/**
 * The most instructions of all patterns of a schema together; `[a-z]{1000}` has a thousand, `^[a-z]+$` five.
 * Compiling one takes a microsecond.
 */
const MAX_PROGRAM = 10_000

/**
 * Memory per instruction: of the instruction itself, of each character of a class as it is written, and of a
 * Unicode property. A property is hundreds of ranges, of which an anchored pattern has a copy per
 * instruction: `^\p{L}{1,255}$` takes 2 MB.
 */
const BYTES = { instruction: 400, written: 4, property: 9_000 }
/**
 * How much of the states that RE2 caches while matching is kept (`forgetStates`): this per instruction, in
 * addition to as much memory as the program has. Plain patterns need less; `(a|b)*a(a|b){20}c` uses all that
 * it gets.
 */
const KEPT_BYTES = 2_000
const CLASSES = /\[(?:\\.|[^\]\\])*\]/gs
const PROPERTY = /\\p/i

/** The part of `RegExp` that Ajv uses. */
interface Matcher {
  test(text: string): boolean
  /** Ajv takes two patterns for the same when this is equal. */
  toString(): string
}

export interface PatternEngine {
  (source: string): Matcher
  /** What Ajv would write into standalone code, which is not used here. */
  readonly code: string
  /** The approximate memory of the compiled patterns. */
  bytes(): number
  /** The most memory that matching may leave behind in addition. */
  keptBytes(): number
}

/**
 * The pattern engine of one schema. It uses RE2, whose time is linear in the text for every pattern, with the
 * syntax of ECMA-262 except look-around and back-references (`ecma-pattern.ts`). Throws `SchemaFault`.
 */
export function linearPatterns(budget: () => CostBudget): PatternEngine {
  let total = 0
  let bytes = 0
  let keptBytes = 0
  const engine = (source: string): Matcher => {
    const program = compile(source)
    const size = program.programSize()
    total += size
    if (total > MAX_PROGRAM)
      throw new SchemaFault('the patterns of the schema are too large together')
    const own = size * bytesOfInstruction(source)
    const mostKept = keepsStates(program) ? own + KEPT_BYTES * size : 0
    bytes += own
    keptBytes += mostKept
    return {
      test(text) {
        // The worst case is a walk through the whole program for every character.
        budget().take(2 * text.length * size)
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

/** Whether RE2 caches states of this pattern: it does not if it can match in one pass. */
function keepsStates(program: RE2JS): boolean {
  return program.re2().onepass === null
}

/**
 * Drops the cached states of a pattern when they exceed `mostKept` bytes. RE2 itself lets each pattern keep 8
 * MB of them for ever, and a schema may have hundreds of patterns.
 */
function forgetStates(program: RE2JS, mostKept: number): void {
  const { lazyDFA } = program.re2()
  if (lazyDFA !== null && lazyDFA.stateBudget - lazyDFA.memBudget > mostKept) lazyDFA.clearCache()
}

function bytesOfInstruction(source: string): number {
  const classes = source.match(CLASSES) ?? []
  const written = Math.max(0, ...classes.map((text) => text.length))
  const properties = PROPERTY.test(source) ? BYTES.property : 0
  return BYTES.instruction + BYTES.written * written + properties
}

function compile(source: string): RE2JS {
  if (source.length > MAX_PATTERN_LENGTH) {
    throw new SchemaFault(`a pattern must have at most ${MAX_PATTERN_LENGTH} characters`)
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
