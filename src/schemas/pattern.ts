import { RE2JS } from 're2js'
import type { Fuel } from './fuel.ts'
import { SchemaFault } from './schema-fault.ts'

const MAX_PATTERN_LENGTH = 1_000
/** Instructions: `[a-z]{1000}` has about as many, `^[a-z]+$` has five. */
const MAX_PROGRAM = 2_000

/** Of `RegExp`, what Ajv uses. */
interface Matcher {
  test(text: string): boolean
  /** Ajv takes two patterns for one when this is the same. */
  toString(): string
}

/**
 * A `pattern` on an engine whose time is linear in the text, whatever the pattern (RE2). It speaks
 * ECMA-262 but for look-around and back-references; `\s` and `\w` are ASCII. Throws `SchemaFault`.
 */
export function linearPattern(source: string, fuel: () => Fuel): Matcher {
  if (source.length > MAX_PATTERN_LENGTH) {
    throw new SchemaFault(`a pattern may have ${MAX_PATTERN_LENGTH} characters at most`)
  }
  const program = compile(source)
  const size = program.programSize()
  if (size > MAX_PROGRAM) throw new SchemaFault(`the pattern '${brief(source)}' is too large`)
  return {
    test(text) {
      // The worst case is a walk through the whole program for every character.
      fuel().take(text.length * size)
      return program.test(text)
    },
    toString: () => source,
  }
}

function compile(source: string): RE2JS {
  try {
    return RE2JS.compile(RE2JS.translateRegExp(source))
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new SchemaFault(`the pattern '${brief(source)}' cannot be used: ${reason}`)
  }
}

function brief(source: string): string {
  return source.length > 60 ? `${source.slice(0, 60)}…` : source
}
