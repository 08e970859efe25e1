import {
  _,
  Ajv2020,
  type ErrorObject,
  type KeywordCxt,
  type ValidateFunction,
} from 'ajv/dist/2020.js'
import { messageOf } from '../errors.ts'
import { applicators } from './applicators.ts'
import { dependentRequired } from './dependent-required.ts'
import { fieldOf, joinPath } from './field-path.ts'
import { FORMATS } from './formats.ts'
import { Fuel, OutOfFuel } from './fuel.ts'
import { literals } from './literals.ts'
import { multipleOf } from './multiple-of.ts'
import { linearPatterns, type PatternEngine } from './pattern.ts'
import { SchemaFault } from './schema-fault.ts'
import { COST, type Cost, planSchema, type SchemaPlan } from './schema-plan.ts'
import { uniqueItems } from './unique-items.ts'

/** One way in which `args` do not match (ojs-digest §2.2). */
export interface Violation {
  /** `args[0].locale` */
  path: string
  message: string
  /** Where in the schema: a JSON pointer. */
  schema_path: string
}

/** A registered schema, compiled. */
export interface ArgsSchema {
  /** Subschemas, and what its patterns take beside them: what compiling it takes goes by it. */
  readonly size: number
  /** With what matching may leave behind: what it takes of memory goes by it. */
  readonly room: number
  /** What is wrong with `args`, at most ten; null: nothing. */
  violations(args: readonly unknown[], fuel: Fuel): Violation[] | null
}

const META_SCHEMA = 'https://json-schema.org/draft/2020-12/schema'
const MAX_NODES = 5_000
const MAX_DEPTH = 32
const MAX_VIOLATIONS = 10
/** Compiled, on average. */
const SUBSCHEMA_BYTES = 4_096
/** Steps for one member that is handed on. */
const MERGE = 75

/**
 * A JSON Schema of draft 2020-12 for the whole `args` array (seed 001 §15.2), compiled. Throws
 * `SchemaFault` for what is not one, or is more than a client may ask of this process. `isTried`: it
 * was compiled before, and came to an end.
 */
export function compileArgsSchema(
  document: Record<string, unknown>,
  { isTried = false } = {},
): ArgsSchema {
  const { $schema, ...rest } = document
  requireDraft($schema)
  measure(rest, { nodes: 0 }, 0)
  requireValid(rest)
  const plan = planSchema(rest)
  const meter: Meter = { fuel: new Fuel() }
  const patterns = linearPatterns(() => meter.fuel)
  const validate = compile(plan, meter, patterns)
  const size = plan.size + Math.ceil(patterns.bytes() / SUBSCHEMA_BYTES)
  const schema: ArgsSchema = {
    size,
    room: size + Math.ceil(patterns.keptBytes() / SUBSCHEMA_BYTES),
    violations: (args, fuel) => violations(validate, args, meter, fuel),
  }
  if (!isTried) requireEnd(schema)
  return schema
}

/** Whose fuel a validation burns: validations do not wait, so there is one at a time. */
interface Meter {
  fuel: Fuel
}

function requireDraft($schema: unknown): void {
  if ($schema === undefined || $schema === META_SCHEMA || $schema === `${META_SCHEMA}#`) return
  throw new SchemaFault('$schema must reference draft 2020-12')
}

/** `__proto__` is refused wherever it stands: it means another thing to every reader. */
function measure(value: unknown, seen: { nodes: number }, depth: number): void {
  seen.nodes++
  if (seen.nodes > MAX_NODES) throw new SchemaFault(`it has more than ${MAX_NODES} values`)
  if (depth > MAX_DEPTH) throw new SchemaFault(`it nests deeper than ${MAX_DEPTH} levels`)
  if (typeof value !== 'object' || value === null) return
  if (Object.hasOwn(value, '__proto__')) throw new SchemaFault('it has a member __proto__')
  for (const inner of Object.values(value)) measure(inner, seen, depth + 1)
}

let metaSchema: ValidateFunction | undefined

/** Compiled by the first registration: 30 ms that most processes never need. */
function requireValid(document: object): void {
  metaSchema ??= new Ajv2020({ strict: false }).getSchema(META_SCHEMA)
  if (metaSchema === undefined) throw new Error('Ajv lost the meta-schema of draft 2020-12')
  if (metaSchema(document)) return
  const [error] = metaSchema.errors ?? []
  const at = fieldOf(error?.instancePath ?? '') || 'the schema'
  throw new SchemaFault(`${at} ${error?.message ?? 'is not valid'}`)
}

/**
 * One Ajv for one schema: nothing can be reached from it, and nothing stays behind. Unknown
 * keywords are gone, so `strict` has nothing to say but about style (`strict: false`: the seed's
 * own example would fail). `inlineRefs` off: a definition used a hundred times is compiled once.
 * `loopRequired`: else a member named '' is never missed, as it is told by its name.
 * `optimize` off: the code is the same, and its making no longer quadratic.
 */
function compile(plan: SchemaPlan, meter: Meter, regExp: PatternEngine): ValidateFunction {
  const currentFuel = () => meter.fuel
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
    const reason = error instanceof RangeError ? 'it is too complex' : messageOf(error)
    throw new SchemaFault(reason)
  }
}

/**
 * Before every other keyword of the subschema, so that what fails is paid for too. `notes`: what is
 * evaluated is noted from nothing on, when it runs. Ajv begins with what the first `if` or `anyOf` has to
 * say, which then counts where that failed, too. Members: of an object without a prototype, whose names
 * (`constructor`) would be evaluated from the start.
 */
function addCost(ajv: Ajv2020, fuel: () => Fuel, notes: SchemaPlan['notes']): void {
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
          fuel().take(costOf(data, f, i, m, t)),
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
  fuel: Fuel,
): Violation[] | null {
  meter.fuel = fuel
  try {
    if (validate(args)) return null
  } catch (error) {
    // RangeError: a reference that leads back to itself without a step into the data.
    if (error instanceof RangeError) throw new OutOfFuel()
    throw error
  }
  const found = (validate.errors ?? []).slice(0, MAX_VIOLATIONS).map(toViolation)
  // There may have been thousands, and the next validation may be far.
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

/** A schema that refers to itself for ever is told at once, not to each producer. */
function requireEnd(schema: ArgsSchema): void {
  try {
    schema.violations([], new Fuel())
  } catch (error) {
    if (error instanceof OutOfFuel) throw new SchemaFault('it refers to itself without end')
    throw error
  }
}
