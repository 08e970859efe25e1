import { resolve } from 'node:path'
import { compile } from 'json-schema-to-typescript'
import { expect, test } from 'vitest'
import { openApiDocument } from '../../src/http/openapi/document.ts'
import { routesOf } from '../../src/http/server.ts'

const FILE = resolve(import.meta.dirname, '../../src/console/api/openapi.ts')
const BANNER = `// The types of the gateway's API, made of its OpenAPI document by test/console/openapi-types.test.mjs.
// Do not edit: \`npx vitest run --project unit test/console/openapi-types.test.mjs -u\` writes it anew.`

const facts = { version: '1', needsKeys: true }
const document = JSON.parse(JSON.stringify(openApiDocument(routesOf({}), facts)))

/** One schema of everything: each operation by method and path, with its query, body and answer. */
function schemaOfAll({ paths, components }) {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => [
      `${method.toUpperCase()} ${path}`,
      schemaOf(operation),
    ]),
  )
  const whole = {
    title: 'Operations',
    ...closed(Object.fromEntries(operations)),
    definitions: components.schemas,
  }
  return JSON.parse(JSON.stringify(whole).replaceAll('#/components/schemas/', '#/definitions/'))
}

function schemaOf({ parameters = [], requestBody, responses }) {
  const query = parameters.filter((each) => each.in === 'query')
  const good = Object.entries(responses).find(([status]) => /^2\d\d$/.test(status))?.[1]
  return closed({
    query: {
      type: 'object',
      additionalProperties: false,
      properties: Object.fromEntries(query.map(({ name, schema }) => [name, schema])),
    },
    body: firstOf(requestBody?.content) ?? { type: 'null' },
    answer: firstOf(good?.content) ?? { type: 'null' },
  })
}

function firstOf(content = {}) {
  return Object.values(content)[0]?.schema
}

function closed(properties) {
  return {
    type: 'object',
    properties,
    required: Object.keys(properties),
    additionalProperties: false,
  }
}

test('the types of the console are those of the OpenAPI document', async () => {
  const types = await compile(schemaOfAll(document), 'Operations', {
    bannerComment: BANNER,
    additionalProperties: false,
    maxItems: -1,
    style: { semi: false, singleQuote: true, printWidth: 100 },
  })
  await expect(types).toMatchFileSnapshot(FILE)
})
