/** `/schemas`: JSON Schemas for `args` are registered, listed, read and deleted. */
import { timestamp } from '../../job/document.ts'
import { deleteSchema, getSchema, listSchemas, registerSchema } from '../../operations/schemas.ts'
import { readJson } from '../message/body.ts'
import { pageOf, pagination } from '../message/page.ts'
import { answer, replayHeader } from '../message/respond.ts'
import { DELETE_SCHEMA, GET_SCHEMA, LIST_SCHEMAS, REGISTER } from '../openapi/schemas.ts'
import { type Endpoint, pathParameter } from '../route.ts'
import type { Door } from './route-deps.ts'

const SCHEMAS = '/ojs/v1/schemas'

interface Shown {
  uri: string
  type: string
  version: number | string
  createdAt: number
}

/** Lists, registers, reads and deletes the schemas of `args` (seed 001 §15). */
export function schemaRoutes({ deps }: Door): Endpoint[] {
  return [
    {
      method: 'GET',
      path: SCHEMAS,
      about: LIST_SCHEMAS,
      access: ['operator'],
      async handle(request, response) {
        const page = pageOf(request)
        const { schemas, total } = await listSchemas(deps, page)
        const body = { schemas: schemas.map(summary), pagination: pagination(page, total) }
        answer(response, 200, JSON.stringify(body))
      },
    },
    {
      method: 'POST',
      path: SCHEMAS,
      about: REGISTER,
      async handle(request, response) {
        const body = await readJson(request, response, deps.settings.maxBodyBytes)
        const { schema, isNew, isReplay } = await registerSchema(deps, body, request.context)
        const text = JSON.stringify({ schema: summary(schema) })
        answer(response, isNew ? 201 : 200, text, ...replayHeader(isReplay))
      },
    },
    {
      method: 'GET',
      path: `${SCHEMAS}/:uri`,
      about: GET_SCHEMA,
      access: ['operator'],
      async handle(request, response) {
        const { content, ...schema } = await getSchema(deps, pathParameter(request, 'uri'))
        const { created_at: createdAt, ...others } = summary(schema)
        const head = JSON.stringify(others).slice(0, -1)
        answer(response, 200, `{"schema":${head},"schema":${content},"created_at":"${createdAt}"}}`)
      },
    },
    {
      method: 'DELETE',
      path: `${SCHEMAS}/:uri`,
      about: DELETE_SCHEMA,
      async handle(request, response) {
        const uri = pathParameter(request, 'uri')
        await deleteSchema(deps, uri)
        answer(response, 200, JSON.stringify({ deleted: true, uri }))
      },
    },
  ]
}

function summary({ uri, type, version, createdAt }: Shown) {
  return { uri, type, version, created_at: timestamp(createdAt) }
}
