import { invalidField, OjsError, unavailable } from '../../errors.ts'
import type { Violation } from '../../schemas/args-schema.ts'
import { Fuel, OutOfFuel } from '../../schemas/fuel.ts'
import { ojsSchema } from '../../schemas/ojs/catalogue.ts'
import type { Deps } from '../deps.ts'

/** A job that somebody asks for: now, in a batch, in a workflow, or for every tick. */
interface Checkable {
  schema?: string | null
  args: readonly unknown[]
}

interface Within {
  /** Of the job in its batch. */
  index?: number
  /** Shared by all jobs of one request. */
  fuel?: Fuel
}

/** No object for each PUSH. */
const ALONE: Within = {}

/**
 * Holds `args` to the schema that the job names, if it is registered (seed 001 §9.1, §15). A job
 * without one costs nothing. Throws `OjsError` 400 `schema_validation`, with `details.index` where
 * an index is given; 400 for a schema that is not registered where only those are allowed
 * (`OJS_SCHEMA_STRICT=1`); 503 where too many would have to be compiled first.
 */
export function checkArgs(
  deps: Pick<Deps, 'ledger' | 'argsSchemas' | 'settings'>,
  job: Checkable,
  { index, fuel }: Within = ALONE,
): void {
  if (job.schema == null) return
  const at = index === undefined ? {} : { index }
  const registration = deps.ledger.schemas.registration(job.schema)
  if (registration === null) {
    // OJS's own are there too, and hold no args to anything.
    if (!deps.settings.schemaStrict || ojsSchema(job.schema)) return
    throw unknownSchema(job.schema, at)
  }
  const named = { schema: job.schema, args: job.args, registration }
  const violations = find(deps, named, fuel ?? new Fuel(), at)
  if (violations !== null) throw mismatch(job.schema, violations, at)
}

function find(
  deps: Pick<Deps, 'ledger' | 'argsSchemas'>,
  named: { schema: string; args: readonly unknown[]; registration: number },
  fuel: Fuel,
  at: object,
): Violation[] | null {
  const { schema, args, registration } = named
  let isNew = false
  try {
    const compiled = deps.argsSchemas.get(registration, () => {
      if (!fuel.mayCompile) throw stillCompiling()
      isNew = true
      return contentOf(deps, schema)
    })
    if (isNew) fuel.compiled(compiled.size)
    return compiled.violations(args, fuel)
  } catch (error) {
    if (error instanceof OjsError) throw error
    const isCostly = error instanceof OutOfFuel
    // What Ajv makes of a rare schema may throw, and an earlier version may have registered what this
    // one refuses: to try again would not help, as a 500 says.
    throw new OjsError(
      'schema_validation',
      isCostly
        ? `The args take too long to check against the schema '${schema}'.`
        : `The args cannot be checked against the schema '${schema}'.`,
      {
        details: { field: 'args', schema, reason: isCostly ? 'too_costly' : 'unusable', ...at },
        cause: error,
      },
    )
  }
}

function contentOf({ ledger }: Pick<Deps, 'ledger'>, uri: string): string {
  const record = ledger.schemas.find(uri)
  // Both reads are of one turn of the event loop, and commits are of another.
  if (record === null) throw new Error(`the schema ${uri} went away between two reads`)
  return record.content
}

/**
 * What was compiled stays so, and the next time there is less to do. Without an end to it a batch whose
 * schemas have no room beside each other would have each compiled for each job, for minutes.
 */
function stillCompiling(): OjsError {
  return unavailable('The request names more schemas than are compiled at a time.', 'busy')
}

function mismatch(schema: string, violations: readonly Violation[], at: object): OjsError {
  const [first] = violations
  return new OjsError(
    'schema_validation',
    `The args do not match the schema '${schema}': ${first?.path} ${first?.message}.`,
    { details: { field: 'args', schema, validation_errors: violations, ...at } },
  )
}

function unknownSchema(schema: string, at: object): OjsError {
  return invalidField('schema', `The schema '${schema}' is not registered.`, {
    validation: 'registered',
    ...at,
  })
}
