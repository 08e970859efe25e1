import { describe, expect, it } from 'vitest'
import { gatewayForAll } from '../operations/harness.ts'
import { expectAsPrinted } from './printed.ts'

const { gateway } = gatewayForAll()

const SCHEMAS = '/ojs/v1/schemas'

let count = 0
/** The schema that seed 001 §15.2 prints, with a new uri. */
function printedSchema(): { uri: string; [member: string]: unknown } {
  count += 1
  return {
    uri: `urn:ojs:schema:email.send:v${count}`,
    type: 'email.send',
    version: 1,
    schema: {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'array',
      prefixItems: [
        { type: 'string', format: 'email', description: 'Recipient email address' },
        { type: 'string', enum: ['welcome', 'password_reset', 'invoice'] },
        { type: 'object', properties: { locale: { type: 'string' } } },
      ],
      minItems: 2,
      maxItems: 3,
    },
  }
}

const at = (uri: string) => `${SCHEMAS}/${encodeURIComponent(uri)}`
const unknown = { status: 404, body: { error: { code: 'not_found', retryable: false } } }

async function registered(): Promise<{ uri: string }> {
  const schema = printedSchema()
  expect((await gateway.request('POST', SCHEMAS, schema)).status).toBe(201)
  return schema
}

describe('GET /ojs/v1/schemas', () => {
  it('200: as printed in §15.1', async () => {
    await registered()
    await registered()
    expectAsPrinted(await gateway.request('GET', SCHEMAS), '15.1 200')
  })

  it('400 invalid_request: a limit that is no number', async () => {
    const answer = await gateway.request('GET', `${SCHEMAS}?limit=1.5`)
    expect(answer).toMatchObject({ status: 400, body: { error: { code: 'invalid_request' } } })
  })
})

describe('POST /ojs/v1/schemas', () => {
  it('201: as printed in §15.2', async () => {
    expectAsPrinted(await gateway.request('POST', SCHEMAS, printedSchema()), '15.2 201')
  })

  it('400 invalid_request: no schema of draft 2020-12, as printed in §15.2', async () => {
    const draft = { $schema: 'http://json-schema.org/draft-07/schema#', type: 'array' }
    const answer = await gateway.request('POST', SCHEMAS, { ...printedSchema(), schema: draft })
    expectAsPrinted(answer, '15.2 400')
  })

  it('409 duplicate: another schema under a uri that is taken', async () => {
    const { uri } = await registered()
    const other = { ...printedSchema(), uri, schema: { type: 'array' } }
    expect(await gateway.request('POST', SCHEMAS, other)).toMatchObject({ status: 409 })
  })
})

describe('GET /ojs/v1/schemas/:uri', () => {
  it('200: as printed in §15.3', async () => {
    const { uri } = await registered()
    expectAsPrinted(await gateway.request('GET', at(uri)), '15.3 200')
  })

  it('404 not_found: an unknown uri', async () => {
    expect(await gateway.request('GET', at('urn:x'))).toMatchObject(unknown)
  })
})

describe('DELETE /ojs/v1/schemas/:uri', () => {
  it('200: as printed in §15.4', async () => {
    const { uri } = await registered()
    expectAsPrinted(await gateway.request('DELETE', at(uri)), '15.4 200')
  })

  it('404 not_found: an unknown uri', async () => {
    expect(await gateway.request('DELETE', at('urn:x'))).toMatchObject(unknown)
  })
})
