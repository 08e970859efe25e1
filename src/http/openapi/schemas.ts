/** Of `/schemas`. */
import { REGISTER_SCHEMA } from '../../schemas/requests/register.ts'
import type { Description } from './description.ts'
import { PAGE, PAGINATION } from './members.ts'
import { entity, INSTANT, list, MAP, object, type Schema, TEXT, TRUE } from './schema.ts'

const VERSION: Schema = { type: ['integer', 'string'] }
const SUMMARY = { uri: TEXT, type: TEXT, version: VERSION, created_at: INSTANT }
const SCHEMA = entity('SchemaSummary', SUMMARY)

export const LIST_SCHEMAS: Description = {
  id: 'listSchemas',
  tag: 'schemas',
  summary: 'List the schemas of args',
  query: PAGE,
  answers: { 200: object({ schemas: list(SCHEMA), pagination: PAGINATION }) },
}

export const REGISTER: Description = {
  id: 'registerSchema',
  tag: 'schemas',
  summary: 'Register a schema of args',
  isIdempotent: true,
  body: REGISTER_SCHEMA,
  answers: { 201: object({ schema: SCHEMA }), 200: object({ schema: SCHEMA }) },
  errors: [409, 422],
}

export const GET_SCHEMA: Description = {
  id: 'getSchema',
  tag: 'schemas',
  summary: 'Read a schema of args',
  answers: { 200: object({ schema: object({ ...SUMMARY, schema: MAP }) }) },
}

export const DELETE_SCHEMA: Description = {
  id: 'deleteSchema',
  tag: 'schemas',
  summary: 'Delete a schema of args',
  answers: { 200: object({ deleted: TRUE, uri: TEXT }) },
}
