/** What a client is told of `args` that do not match their schema, or cannot be checked. */
import { OjsError } from '../../errors.ts'
import type { Violation } from '../../schemas/args/args-schema.ts'
import { CostExceeded } from '../../schemas/args/cost-budget.ts'

/** Throws 400 `schema_validation` if `find` returns violations, or fails. */
export function requireMatch(schema: string, find: () => Violation[] | null): void {
  const violations = found(schema, find)
  if (violations !== null) throw mismatch(schema, violations)
}

function found(schema: string, find: () => Violation[] | null): Violation[] | null {
  try {
    return find()
  } catch (error) {
    const isCostly = error instanceof CostExceeded
    // The code that Ajv generates may throw for a rare schema, and an earlier version of the gateway may have
    // registered a schema that this one refuses. This is a 400, because a 500 would say that a repeat of the
    // request might succeed.
    throw new OjsError(
      'schema_validation',
      isCostly
        ? `The args take too long to check against the schema '${schema}'.`
        : `The args cannot be checked against the schema '${schema}'.`,
      {
        details: { field: 'args', schema, reason: isCostly ? 'too_costly' : 'unusable' },
        cause: error,
      },
    )
  }
}

function mismatch(schema: string, violations: readonly Violation[]): OjsError {
  const [first] = violations
  return new OjsError(
    'schema_validation',
    `The args do not match the schema '${schema}': ${first?.path} ${first?.message}.`,
    { details: { field: 'args', schema, validation_errors: violations } },
  )
}
