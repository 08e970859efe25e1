/** JSON Schemas in short, for the descriptions of answers. */

/** A JSON Schema (2020-12). One with a `title` becomes a component of that name. */
export type Schema = Readonly<Record<string, unknown>>

export const TEXT: Schema = { type: 'string' }
export const INTEGER: Schema = { type: 'integer' }
export const NUMBER: Schema = { type: 'number' }
export const BOOLEAN: Schema = { type: 'boolean' }
export const TRUE: Schema = { const: true, type: 'boolean' }
/** RFC 3339, in UTC. */
export const INSTANT: Schema = { type: 'string', format: 'date-time' }
/** Any JSON. */
export const ANY: Schema = {}
/** An object whose members its author chooses. */
export const MAP: Schema = { type: 'object', additionalProperties: true }

/** An object of these members; those whose names end in `?` may be absent. `more`: further keywords. */
export function object(members: Readonly<Record<string, Schema>>, more: Schema = {}): Schema {
  const names = Object.keys(members)
  const required = names.filter((name) => !name.endsWith('?'))
  return {
    ...more,
    type: 'object',
    ...(required.length > 0 && { required }),
    properties: Object.fromEntries(
      names.map((name) => [name.replace(/\?$/, ''), members[name] ?? ANY]),
    ),
  }
}

/** An object that becomes a component. */
export function entity(title: string, members: Readonly<Record<string, Schema>>): Schema {
  return object(members, { title })
}

export function list(items: Schema): Schema {
  return { type: 'array', items }
}

export function oneOf(words: readonly string[]): Schema {
  return { type: 'string', enum: [...words] }
}

export function nullable(schema: Schema): Schema {
  if (schema['title'] !== undefined) return { anyOf: [schema, { type: 'null' }] }
  return { ...schema, type: [schema['type'], 'null'] }
}

/** The schema with a sentence about it; one that is a component stays that component. */
export function told(description: string, schema: Schema = TEXT): Schema {
  if (schema['title'] !== undefined) return { allOf: [schema], description }
  return { ...schema, description }
}

/** The schema as it was before `told`, for a place that has the sentence itself. */
export function untold(schema: Schema): Schema {
  const { description: _description, allOf, ...others } = schema
  if (schema['title'] !== undefined) return schema
  if (allOf === undefined) return others
  return Array.isArray(allOf) && allOf.length === 1 ? allOf[0] : { ...others, allOf }
}
