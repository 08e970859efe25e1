/** Compiles a registered JSON Schema for `args`, and validates jobs with it at a bounded cost. */
import {
  _,
  Ajv2020,
  type ErrorObject,
  type KeywordCxt,
  type ValidateFunction,
} from 'ajv/dist/2020.js'
import { messageOf } from '../../errors.ts'
import { fieldOf, joinPath } from '../json/field-path.ts'
import { applicators } from './applicators.ts'
import { CostBudget, CostExceeded } from './cost-budget.ts'
import { COST, type Cost, planSchema, type SchemaPlan } from './cost-plan.ts'
import { dependentRequired } from './dependent-required.ts'
import { FORMATS, SchemaFault } from './formats.ts'
import { literals } from './literals.ts'
import { multipleOf } from './multiple-of.ts'
import { linearPatterns, type PatternEngine } from './pattern.ts'
import { uniqueItems } from './unique-items.ts'

/** One way in which `args` do not match (OJS core). */
export interface Violation {
  /** `args[0].locale` */
  path: string
  message: string
  /** The place in the schema, as a JSON pointer. */
  schema_path: string
}

/** A registered schema, compiled. */
export interface ArgsSchema {
  /** The measure of its compilation: its subschemas, and the memory of its patterns counted in these. */
  readonly size: number
  /** The measure of its memory: `size`, and what matching its patterns may leave behind. */
  readonly room: number
  /** Returns at most ten violations; null when there is none. Burns `budget`, and throws `CostExceeded`. */
  violations(args: readonly unknown[], budget: CostBudget): Violation[] | null
}

const META_SCHEMA = 'https://json-schema.org/draft/2020-12/schema'
const MAX_NODES = 5_000
const MAX_DEPTH = 32
const MAX_VIOLATIONS = 10
/** The memory of a compiled subschema, on average. */
const SUBSCHEMA_BYTES = 4_096
/** Steps for merging one evaluated member of a subschema (`handedOn` of `Cost`). */
const MERGE = 75

/**
 * Compiles a JSON Schema of draft 2020-12 for the whole `args` array (seed 001 §15.2). Throws `SchemaFault`
 * for a document that is not such a schema, or that needs more than a client may ask of this process.
 * `isTried`: the schema was compiled before, and a validation with it ended.
 */
export function compileArgsSchema(
  document: Record<string, unknown>,
  { isTried = false } = {},
): ArgsSchema {
  const { $schema, ...keywords } = document
  requireDraft($schema)
  measure(keywords, { nodes: 0 }, 0)
  requireValid(keywords)
  const plan = planSchema(keywords)
  const meter: Meter = { budget: new CostBudget() }
  const patterns = linearPatterns(() => meter.budget)
  const validate = compile(plan, meter, patterns)
  const size = plan.size + Math.ceil(patterns.bytes() / SUBSCHEMA_BYTES)
  const schema: ArgsSchema = {
    size,
    room: size + Math.ceil(patterns.keptBytes() / SUBSCHEMA_BYTES),
    violations: (args, budget) => violations(validate, args, meter, budget),
  }
  if (!isTried) requireEnd(schema)
  return schema
}

/** The budget of the current validation. Validations are synchronous, so there is only one at a time. */
interface Meter {
  budget: CostBudget
}

function requireDraft($schema: unknown): void {
  if ($schema === undefined || $schema === META_SCHEMA || $schema === `${META_SCHEMA}#`) return
  throw new SchemaFault('$schema must reference draft 2020-12')
}

/**
 * Throws for a document that is too large or too deep, or that has a member `__proto__` anywhere: different
 * readers understand that differently.
 */
function measure(value: unknown, seen: { nodes: number }, depth: number): void {
  seen.nodes++
  if (seen.nodes > MAX_NODES) throw new SchemaFault(`the schema has more than ${MAX_NODES} values`)
  if (depth > MAX_DEPTH) throw new SchemaFault(`the schema nests deeper than ${MAX_DEPTH} levels`)
  if (typeof value !== 'object' || value === null) return
  if (Object.hasOwn(value, '__proto__')) throw new SchemaFault('the schema has a member __proto__')
  for (const inner of Object.values(value)) measure(inner, seen, depth + 1)
}

let metaSchema: ValidateFunction | undefined

/** The meta-schema is compiled at the first registration: 30 ms that most processes never need. */
function requireValid(document: object): void {
  metaSchema ??= new Ajv2020({ strict: false }).getSchema(META_SCHEMA)
  if (metaSchema === undefined) throw new Error('Ajv has no meta-schema of draft 2020-12')
  if (metaSchema(document)) return
  const [error] = metaSchema.errors ?? []
  const at = fieldOf(error?.instancePath ?? '') || 'the schema'
  throw new SchemaFault(`${at} ${error?.message ?? 'is not valid'}`)
}

/**
 * Compiles a plan with an Ajv of its own, so that the schema can reach no other and leaves nothing behind.
 * - `strict: false`: the plan has no unknown keywords, so `strict` would only complain about style, even in
 *   the seed's own example.
 * - `inlineRefs: false`: a definition that is used a hundred times is compiled once.
 * - `loopRequired: 0`: otherwise Ajv recognises a missing member by its name and so never misses one named
 *   ''.
 * - `optimize: false`: the resulting code is the same, and generating it no longer takes quadratic time.
 */
function compile(plan: SchemaPlan, meter: Meter, regExp: PatternEngine): ValidateFunction {
  const currentFuel = () => meter.budget
  const ajv = new Ajv2020({
    strict: false,
    meta: false,
    validateSchema: false,
    logger: false,
    inlineRefs: false,
    ownProperties: true,
    loopRequired: 0,
    formats: FORMATS,
    code: { regExp, optimize: false },
  })
  const ours = [uniqueItems(currentFuel), multipleOf(currentFuel), ...literals(currentFuel)]
  for (const own of [...ours, dependentRequired(), ...applicators()]) {
    ajv.removeKeyword(String(own.keyword))
    ajv.addKeyword(own)
  }
  addCost(ajv, currentFuel, plan.notes)
  try {
    return ajv.compile(plan.schema)
  } catch (error) {
    if (error instanceof SchemaFault) throw error
    const reason = error instanceof RangeError ? 'the schema is too complex' : messageOf(error)
    throw new SchemaFault(reason)
  }
}

/**
 * Adds the keyword `COST`. It runs before every other keyword of its subschema, so that a subschema that
 * fails is paid for too. `notes`: it also starts the records of evaluated members and items as empty ones, at
 * run time. Ajv would start them with what the first `if` or `anyOf` evaluates, which would then count even
 * where that failed. The record of members has no prototype, or else names such as `constructor` would count
 * as evaluated from the start.
 */
function addCost(ajv: Ajv2020, budget: () => CostBudget, notes: SchemaPlan['notes']): void {
  ajv.addKeyword({
    keyword: COST,
    code(context: KeywordCxt) {
      const { gen, it } = context
      if (notes.members) it.props = gen.var('props', _`{__proto__: null}`)
      if (notes.items) it.items = gen.var('items', 0)
      const [fixed, perItem, ofMembers, perText, handedOn] = context.schema as Cost
      const perMember = ofMembers + (notes.members ? MERGE * handedOn : 0)
      const pay = gen.scopeValue('func', {
        ref: (data: unknown, f: number, i: number, m: number, t: number) =>
          budget().take(costOf(data, f, i, m, t)),
      })
      gen.code(_`${pay}(${context.data}, ${fixed}, ${perItem}, ${perMember}, ${perText})`)
    },
  })
  const { rules } = ajv.RULES
  for (const group of rules) {
    const at = group.rules.findIndex(({ keyword }) => keyword === COST)
    if (at >= 0) rules.unshift({ rules: group.rules.splice(at, 1) })
    if (at >= 0) return
  }
}

function costOf(
  data: unknown,
  fixed: number,
  perItem: number,
  perMember: number,
  perText: number,
): number {
  if (typeof data === 'string') return fixed + perText * (data.length >> 3)
  if (typeof data !== 'object' || data === null) return fixed
  if (Array.isArray(data)) return fixed + perItem * data.length
  return perMember === 0 ? fixed : fixed + perMember * Object.keys(data).length
}

function violations(
  validate: ValidateFunction,
  args: readonly unknown[],
  meter: Meter,
  budget: CostBudget,
): Violation[] | null {
  meter.budget = budget
  try {
    if (validate(args)) return null
  } catch (error) {
    // RangeError: a reference that leads back to itself without a step into the data.
    if (error instanceof RangeError) throw new CostExceeded()
    throw error
  }
  const found = (validate.errors ?? []).slice(0, MAX_VIOLATIONS).map(toViolation)
  // Drops the errors: there may be thousands, and Ajv would keep them until the next validation.
  validate.errors = null
  return found
}

function toViolation({ instancePath, keyword, message, params, schemaPath }: ErrorObject) {
  const extra: unknown = params['additionalProperty'] ?? params['unevaluatedProperty']
  const path = `args${fieldOf(instancePath)}`
  return {
    path: cut(typeof extra === 'string' ? joinPath(path, extra) : path),
    message: cut(message ?? keyword),
    schema_path: cut(schemaPath),
  }
}

function cut(text: string): string {
  return text.length > 200 ? `${text.slice(0, 200)}…` : text
}

/** Makes the registration of an endlessly recursive schema fail, instead of every job that names it. */
function requireEnd(schema: ArgsSchema): void {
  try {
    schema.violations([], new CostBudget())
  } catch (error) {
    if (error instanceof CostExceeded)
      throw new SchemaFault('the schema refers to itself without end')
    throw error
  }
}
