import { describe, expect, test } from 'vitest'
import { type JobFilter, OJSClient } from '../../../src/sdk/index.ts'
import { mockTransport } from '../mock-transport.ts'

const unset = (filter: object) => filter as JobFilter

describe('a filter of which a condition was not set', () => {
  test.each([
    [unset({ meta: { tenant: undefined } })],
    [unset({ meta: {} })],
    [unset({ queue: 'q', meta: { tenant: undefined, a: 'b' } })],
    [unset({ queue: [] })],
  ])('is a TypeError, and nothing is sent: %j', async (filter) => {
    const transport = mockTransport(() => ({ status: 202, body: { id: 'o', state: 'running' } }))
    const client = new OJSClient({ transport })
    const how = { confirm: true }
    await expect(client.bulk.delete(filter, how)).rejects.toThrow(TypeError)
    await expect(client.bulk.deleteDeadLetters(filter, how)).rejects.toThrow(TypeError)
    await expect(client.jobs.page(filter)).rejects.toThrow(TypeError)
    expect(transport.requests).toEqual([])
  })

  test('is a TypeError in actions if it is the only one', async () => {
    const transport = mockTransport(() => ({ status: 202, body: { id: 'o', state: 'running' } }))
    const { bulk } = new OJSClient({ transport })
    const of = { queue: undefined }
    await expect(bulk.delete(of, { confirm: true })).rejects.toThrow(TypeError)
    await expect(bulk.cancel(of, { confirm: true })).rejects.toThrow(TypeError)
    await expect(bulk.deleteDeadLetters(of, { confirm: true })).rejects.toThrow(TypeError)
    expect(transport.requests).toEqual([])
    await bulk.deleteDeadLetters({}, { confirm: true })
    expect(transport.requests).toHaveLength(1)
  })
})
