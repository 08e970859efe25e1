/** Checks the `args` of jobs against the schemas that they name. */
import { invalidField, OjsError, unavailable } from '../../errors.ts'
import type { ArgsSchema } from '../../schemas/args/args-schema.ts'
import { CostBudget, stepsFor } from '../../schemas/args/cost-budget.ts'
import { ojsSchema } from '../../schemas/ojs/catalogue.ts'
import { inSlices } from '../../slices.ts'
import type { Deps } from '../deps.ts'
import { requireMatch } from './args-match.ts'

/** A requested job: of a PUSH, a batch, a workflow or a cron entry. */
interface Checkable {
  schema?: string | null
  args: readonly unknown[]
}

type Needs = Pick<Deps, 'ledger' | 'argsSchemas' | 'settings'>

/**
 * Validates `args` against the schema that the job names, if it is registered (seed 001 §9.1, §15). A job
 * without a schema costs nothing, and there is nothing to wait for unless the schema is yet to be compiled: then
 * returns a promise. Throws or rejects with `OjsError` 400 `schema_validation`; 400 for an unregistered schema if
 * `OJS_SCHEMA_STRICT=1`.
 */
export function checkArgs(deps: Needs, job: Checkable): Promise<void> | undefined {
  if (job.schema == null) return undefined
  const checks = new ArgsChecks(deps, 1)
  checks.add(job, 0)
  return checks.rest()
}

interface Waiting {
  schema: string
  args: readonly unknown[]
  place: number
}

/**
 * The same for all jobs of one request. What has to be compiled is checked schema by schema, so that each schema
 * is compiled once and may leave the cache when its jobs are checked: a request may name more schemas than the
 * cache has room for.
 */
export class ArgsChecks {
  readonly #deps: Needs
  readonly #fuel: CostBudget
  readonly #explain: (error: OjsError, place: number) => OjsError
  /** By the registration of the schema that they name. */
  readonly #waiting = new Map<number, Waiting[]>()
  #fault: { error: unknown; place: number } | null = null
  #isLong = false

  /** `explain`: adds to an error which job of the request it is about. */
  constructor(
    deps: Needs,
    jobs: number,
    explain: (error: OjsError, place: number) => OjsError = (error) => error,
  ) {
    this.#deps = deps
    this.#fuel = new CostBudget(stepsFor(jobs))
    this.#explain = explain
  }

  /** Checks a job now if its schema is compiled, else in `rest`. `place`: its place in the request. Throws. */
  add({ schema, args }: Checkable, place: number): void {
    if (schema == null) return
    const { ledger, argsSchemas, settings } = this.#deps
    const registration = ledger.known.schemas.registration(schema)
    if (registration === null) {
      // The built-in schemas of OJS itself count as registered, but they do not describe args.
      if (settings.schemaStrict && !ojsSchema(schema)) throw unknownSchema(schema)
      return
    }
    const compiled = argsSchemas.get(registration)
    if (compiled === undefined) this.#wait(registration, { schema, args, place })
    else requireMatch(schema, () => compiled.violations(args, this.#fuel))
  }

  /** The job at this place, the last one, is at fault. `rest` throws the error, or that of a job before it. */
  fail(error: unknown, place: number): void {
    this.#fault = { error, place }
  }

  /**
   * Checks what is left; undefined: there was nothing to wait for. Throws or rejects with the error of the first
   * job at fault, in the order of the request; 503 if this request would compile for long, and another one does.
   */
  rest(): Promise<void> | undefined {
    if (this.#waiting.size > 0) return this.#checkWaiting()
    this.#throwFault()
    return undefined
  }

  get #faultAt(): number {
    return this.#fault?.place ?? Number.POSITIVE_INFINITY
  }

  #throwFault(): void {
    if (this.#fault === null) return
    const { error, place } = this.#fault
    throw error instanceof OjsError ? this.#explain(error, place) : error
  }

  #wait(registration: number, job: Waiting): void {
    const others = this.#waiting.get(registration)
    if (others === undefined) this.#waiting.set(registration, [job])
    else others.push(job)
  }

  async #checkWaiting(): Promise<void> {
    try {
      for (const [registration, jobs] of this.#waiting) {
        // Jobs whose schema is registered anew meanwhile are added again, behind the others.
        this.#waiting.delete(registration)
        await this.#checkAll(registration, jobs)
      }
    } finally {
      if (this.#isLong) this.#deps.argsSchemas.endLong()
    }
    this.#throwFault()
  }

  async #checkAll(registration: number, jobs: readonly Waiting[]): Promise<void> {
    if (!jobs.some(({ place }) => place <= this.#faultAt)) return
    const content = await this.#deps.ledger.read.schemas.content(registration)
    if (content !== null) this.#requireTurn()
    // Each schema is compiled in a turn of the event loop of its own.
    await inSlices(this.#checkEach(registration, content, jobs))
  }

  *#checkEach(
    registration: number,
    content: string | null,
    jobs: readonly Waiting[],
  ): Generator<undefined, void> {
    let schema = this.#deps.argsSchemas.get(registration)
    const find = (text: string) => {
      schema ??= this.#compile(registration, text)
      return schema
    }
    for (const job of jobs) {
      if (job.place > this.#faultAt) continue
      try {
        // It was deleted meanwhile, and perhaps registered anew.
        if (content === null) this.add(job, job.place)
        else requireMatch(job.schema, () => find(content).violations(job.args, this.#fuel))
      } catch (error) {
        this.fail(error, job.place)
      }
      yield
    }
  }

  #compile(registration: number, content: string): ArgsSchema {
    const schema = this.#deps.argsSchemas.add(registration, content)
    this.#fuel.compiled(schema.size)
    return schema
  }

  /** Throws 503 if another request compiles for long: several would hold up each other, and all else, for minutes. */
  #requireTurn(): void {
    if (this.#fuel.mayCompile || this.#isLong) return
    if (!this.#deps.argsSchemas.beginLong()) throw othersCompile()
    this.#isLong = true
  }
}

function othersCompile(): OjsError {
  return unavailable(
    'Another request compiles many schemas, and so would this one; repeat it later.',
    'busy',
  )
}

function unknownSchema(schema: string): OjsError {
  return invalidField('schema', `The schema '${schema}' is not registered.`, {
    validation: 'registered',
  })
}
