/** Prepares a schema for the compiler: unknown keywords out, references resolved, costs added. */
import { echoed } from '../../errors.ts'
import { isJsonObject } from '../../job/values/json-value.ts'
import { FORMATS, SchemaFault } from './formats.ts'

/** Our keyword in every subschema, with the cost of one evaluation. See `Cost`. */
export const COST = 'x-ojs-cost'

/**
 * Steps of one evaluation: fixed, per item, per member, and per 8 characters of the data. `handedOn`: how
 * many subschemas hand on the members that they have evaluated. Each of these costs steps per member if the
 * schema has `unevaluatedProperties`.
 */
export type Cost = readonly [
  fixed: number,
  perItem: number,
  perMember: number,
  perText: number,
  handedOn: number,
]

export interface SchemaPlan {
  /** The document, reduced to the keywords of draft 2020-12, with `COST` added. */
  schema: object
  /** The number of its subschemas, which determines the memory of the compiled schema. */
  size: number
  /** Whether a keyword of the schema depends on which items or members were evaluated. */
  notes: { items: boolean; members: boolean }
}

/** Compiling one takes some 0.3 ms, during which this process does nothing else. */
const MAX_SUBSCHEMAS = 500

const ONE = new Set([
  ...['additionalProperties', 'unevaluatedProperties', 'propertyNames', 'items', 'contains'],
  ...['unevaluatedItems', 'not', 'if', 'then', 'else'],
])
const MANY = new Set(['prefixItems', 'allOf', 'anyOf', 'oneOf'])
const NAMED = new Set([
  ...['properties', 'patternProperties', 'dependentSchemas', '$defs', 'definitions'],
])
const VALUES = new Set([
  ...['type', 'const', 'enum', 'multipleOf', 'maximum', 'exclusiveMaximum', 'minimum'],
  ...['exclusiveMinimum', 'maxLength', 'minLength', 'pattern', 'maxItems', 'minItems'],
  ...['uniqueItems', 'maxContains', 'minContains', 'maxProperties', 'minProperties', 'required'],
  ...['dependentRequired'],
])
/** Keywords whose subschemas may fail while the data match. Ajv describes each failure: that costs most. */
const TRIED = new Set(['anyOf', 'oneOf', 'not', 'if'])
const TRY = 10
const PER_ITEM = ['items', 'unevaluatedItems']
const PER_MEMBER = [
  ...['additionalProperties', 'patternProperties', 'propertyNames', 'maxProperties'],
  ...['minProperties', 'unevaluatedProperties'],
]
/** Keywords that hand on which members of the same data their subschemas evaluated; `$ref` does so too. */
const IN_PLACE = ['allOf', 'anyOf', 'oneOf', 'if', 'then', 'else', 'dependentSchemas']
const PER_TEXT = ['minLength', 'maxLength']
/** Some ten times the cost of a length: an address may have a hundred labels, each of them checked. */
const FORMAT = 10
/** Their subschemas are not evaluated where they stand. */
const DEFINITIONS = new Set(['$defs', 'definitions'])

type Members = Record<string, unknown>

/**
 * Prepares a document for the compiler: removes unknown keywords (annotations, by draft 2020-12), adds its
 * cost to every subschema, and resolves references, which must stay inside the document. Expects a document
 * that the meta-schema accepts. Throws `SchemaFault` for what is not supported here.
 */
export function planSchema(document: Members): SchemaPlan {
  const planner = new Planner(document['$id'])
  const schema = planner.subschema(document, '')
  planner.resolveReferences()
  planner.checkItems()
  return {
    schema: schema as object,
    size: planner.size,
    notes: {
      items: planner.uses('unevaluatedItems'),
      members: planner.uses('unevaluatedProperties'),
    },
  }
}

class Planner {
  size = 0
  readonly #rootId: string | null
  readonly #pointers = new Set<string>()
  /** JSON pointers by anchor; they replace the anchors, as Ajv does not find an anchor at the top. */
  readonly #anchors = new Map<string, string>()
  readonly #referrers: Members[] = []
  readonly #keywords = new Set<string>()

  constructor(rootId: unknown) {
    this.#rootId = typeof rootId === 'string' ? rootId.replace(/#$/, '') : null
  }

  subschema(schema: unknown, pointer: string): unknown {
    this.#grow(1)
    this.#pointers.add(pointer)
    if (!isJsonObject(schema)) return schema
    if (pointer !== '' && schema['$id'] !== undefined) {
      throw new SchemaFault('a $id below the top level is not supported')
    }
    const plain = withPlainReferences(schema)
    const members = Object.entries(plain).flatMap(([keyword, value]) =>
      this.#keyword(keyword, value, pointer),
    )
    if (members.length === 0) return {}
    const planned: Members = Object.fromEntries([...members, [COST, costOf(plain)]])
    if (planned['$ref'] !== undefined) this.#referrers.push(planned)
    return planned
  }

  resolveReferences(): void {
    for (const referrer of this.#referrers) {
      const reference = String(referrer['$ref'])
      const fragment = decoded(reference.slice(1))
      const pointer = this.#pointers.has(fragment) ? fragment : this.#anchors.get(fragment)
      if (pointer === undefined) {
        throw new SchemaFault(
          `the reference '${echoed(reference)}' points to nothing in the schema`,
        )
      }
      referrer['$ref'] = `#${encoded(pointer)}`
    }
  }

  uses(keyword: string): boolean {
    return this.#keywords.has(keyword)
  }

  /** Ajv counts evaluated items from the first on, but `contains` evaluates items anywhere. */
  checkItems(): void {
    if (this.uses('contains') && this.uses('unevaluatedItems')) {
      throw new SchemaFault('a schema with both contains and unevaluatedItems is not supported')
    }
  }

  #grow(by: number): void {
    this.size += by
    if (this.size > MAX_SUBSCHEMAS) {
      throw new SchemaFault(`the schema has more than ${MAX_SUBSCHEMAS} subschemas`)
    }
  }

  #keyword(keyword: string, value: unknown, pointer: string): [string, unknown][] {
    const at = `${pointer}/${escaped(keyword)}`
    this.#keywords.add(keyword)
    if (ONE.has(keyword)) return [[keyword, this.subschema(value, at)]]
    if (MANY.has(keyword) && Array.isArray(value)) {
      return [[keyword, value.map((schema, i) => this.subschema(schema, `${at}/${i}`))]]
    }
    if (NAMED.has(keyword) && isJsonObject(value)) return [[keyword, this.#named(value, at)]]
    if (keyword === '$ref') return [[keyword, this.#reference(value)]]
    if (keyword === 'format') return isChecked(value) ? [[keyword, value]] : []
    if (keyword === '$anchor' || keyword === '$dynamicAnchor') this.#anchor(String(value), pointer)
    if (!VALUES.has(keyword)) return []
    // Counted like subschemas, since its members are checked one by one.
    if (keyword === 'dependentRequired' && isJsonObject(value)) {
      this.#grow(Object.keys(value).length)
    }
    return [[keyword, value]]
  }

  #named(schemas: Members, at: string): object {
    return Object.fromEntries(
      Object.entries(schemas).map(([name, schema]) => [
        name,
        this.subschema(schema, `${at}/${escaped(name)}`),
      ]),
    )
  }

  #anchor(name: string, pointer: string): void {
    if ((this.#anchors.get(name) ?? pointer) !== pointer) {
      throw new SchemaFault(`the anchor '${echoed(name)}' is defined more than once`)
    }
    this.#anchors.set(name, pointer)
  }

  /** Removes the document's own absolute `$id` from a reference; the fragment says all. */
  #reference(value: unknown): string {
    const text = String(value)
    const isOwn = this.#rootId !== null && text.startsWith(this.#rootId)
    const reference = (isOwn ? text.slice(this.#rootId?.length) : text) || '#'
    if (!reference.startsWith('#')) {
      throw new SchemaFault(`a $ref must stay inside the schema: '${echoed(text)}' is not fetched`)
    }
    return reference
  }
}

/** Replaces `$dynamicRef` by `$ref`: in a single document without inner `$id`s both mean the same. */
function withPlainReferences({ $dynamicRef, ...schema }: Members): Members {
  if ($dynamicRef === undefined) return schema
  if (schema['$ref'] === undefined) return { ...schema, $ref: $dynamicRef }
  const allOf = Array.isArray(schema['allOf']) ? schema['allOf'] : []
  return { ...schema, allOf: [...allOf, { $ref: $dynamicRef }] }
}

function costOf(schema: Members): Cost {
  const has = (keywords: readonly string[]) =>
    keywords.filter((keyword) => schema[keyword] !== undefined).length
  const fixed = Object.entries(schema).reduce((sum, entry) => sum + keywordCost(...entry), 1)
  const perItem = has(PER_ITEM) + TRY * has(['contains'])
  const perText = has(PER_TEXT) + FORMAT * has(['format'])
  const handedOn = IN_PLACE.reduce((sum, name) => sum + applied(name, schema[name]), has(['$ref']))
  return [fixed, perItem, TRY * has(PER_MEMBER), perText, handedOn]
}

function keywordCost(keyword: string, value: unknown): number {
  if (DEFINITIONS.has(keyword)) return 0
  if (VALUES.has(keyword)) return literalSize(value)
  return (TRIED.has(keyword) ? TRY : 1) * applied(keyword, value)
}

/** The number of subschemas that the keyword applies. */
function applied(keyword: string, value: unknown): number {
  if (MANY.has(keyword) && Array.isArray(value)) return value.length
  if (NAMED.has(keyword) && isJsonObject(value)) return Object.keys(value).length
  return ONE.has(keyword) && value !== undefined ? 1 : 0
}

/** The cost of comparing with a literal: a step per value and per 16 characters. */
function literalSize(value: unknown): number {
  if (typeof value === 'string') return value.length >> 4
  if (typeof value !== 'object' || value === null) return 0
  return Object.entries(value).reduce(
    (sum, [name, inner]) => sum + 1 + (name.length >> 4) + literalSize(inner),
    0,
  )
}

function isChecked(format: unknown): boolean {
  return typeof format === 'string' && Object.hasOwn(FORMATS, format)
}

function escaped(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1')
}

/** Encodes a pointer as the fragment of a URI, which cannot hold a lone surrogate. */
function encoded(pointer: string): string {
  return encodeURI(pointer.replaceAll(/\p{Cs}/gu, '\ufffd')).replaceAll('#', '%23')
}

function decoded(fragment: string): string {
  try {
    return decodeURIComponent(fragment)
  } catch {
    return fragment
  }
}
