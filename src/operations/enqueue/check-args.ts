/** Checks the `args` of jobs against the schemas that they name. */
import { invalidField, OjsError, unavailable } from '../../errors.ts'
import type { Violation } from '../../schemas/args/args-schema.ts'
import { CostBudget, CostExceeded } from '../../schemas/args/cost-budget.ts'
import { ojsSchema } from '../../schemas/ojs/catalogue.ts'
import type { Deps } from '../deps.ts'

/** A requested job: of a PUSH, a batch, a workflow or a cron entry. */
interface Checkable {
  schema?: string | null
  args: readonly unknown[]
}

type Needs = Pick<Deps, 'ledger' | 'argsSchemas' | 'settings'>

/**
 * Validates `args` against the schema that the job names, if it is registered (seed 001 §9.1, §15). A job
 * without a schema costs nothing, and there is nothing to wait for unless the schema is yet to be compiled: then
 * returns a promise. `fuel`: shared by all jobs of one request. Throws or rejects with `OjsError` 400
 * `schema_validation`; 400 for an unregistered schema if `OJS_SCHEMA_STRICT=1`; 503 if the request would have
 * to compile too many schemas.
 */
export function checkArgs(
  deps: Needs,
  { schema, args }: Checkable,
  fuel: CostBudget = new CostBudget(),
): Promise<void> | undefined {
  if (schema == null) return undefined
  const registration = deps.ledger.known.schemas.registration(schema)
  if (registration === null) {
    // The built-in schemas of OJS itself count as registered, but they do not describe args.
    if (!deps.settings.schemaStrict || ojsSchema(schema)) return undefined
    throw unknownSchema(schema)
  }
  const compiled = deps.argsSchemas.get(registration)
  if (compiled === undefined && !fuel.mayCompile) throw stillCompiling()
  if (compiled === undefined) return compileAndCheck(deps, { schema, args }, registration, fuel)
  check(schema, () => compiled.violations(args, fuel))
  return undefined
}

async function compileAndCheck(
  deps: Needs,
  { schema, args }: Checkable & { schema: string },
  registration: number,
  fuel: CostBudget,
): Promise<void> {
  const content = await deps.ledger.read.schemas.content(registration)
  // It was deleted meanwhile, and perhaps registered anew.
  if (content === null) return await checkArgs(deps, { schema, args }, fuel)
  check(schema, () => {
    const present = deps.argsSchemas.get(registration)
    if (present !== undefined) return present.violations(args, fuel)
    if (!fuel.mayCompile) throw stillCompiling()
    const compiled = deps.argsSchemas.add(registration, content)
    fuel.compiled(compiled.size)
    return compiled.violations(args, fuel)
  })
}

function check(schema: string, find: () => Violation[] | null): void {
  const violations = found(schema, find)
  if (violations !== null) throw mismatch(schema, violations)
}

function found(schema: string, find: () => Violation[] | null): Violation[] | null {
  try {
    return find()
  } catch (error) {
    if (error instanceof OjsError) throw error
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

/**
 * The error for a request that has used up its budget for compiling. Compiled schemas stay cached, so a
 * repeat of the request has less to compile. Without the budget, a batch whose schemas do not fit into the
 * cache together would compile one for each job, for minutes.
 */
function stillCompiling(): OjsError {
  return unavailable(
    'The request would compile too many schemas at once; repeating it compiles fewer.',
    'busy',
  )
}

function mismatch(schema: string, violations: readonly Violation[]): OjsError {
  const [first] = violations
  return new OjsError(
    'schema_validation',
    `The args do not match the schema '${schema}': ${first?.path} ${first?.message}.`,
    { details: { field: 'args', schema, validation_errors: violations } },
  )
}

function unknownSchema(schema: string): OjsError {
  return invalidField('schema', `The schema '${schema}' is not registered.`, {
    validation: 'registered',
  })
}
