import { describe, expect, test } from 'vitest'
import { parseJobFilter } from '../../../src/operations/search/parse-filter.ts'
import { adminBulk, dataBulk, deadLetterPurge } from '../../../src/operations/steer/bulk-request.ts'

const context = { requestId: 'r', principal: null } as unknown as Parameters<typeof adminBulk>[3]

const SAYS_NOTHING: [Record<string, unknown>, string][] = [
  [{ meta: {} }, 'meta'],
  [{ args: [] }, 'args'],
  [{ args: {} }, 'args'],
  [{ args: [{}] }, 'args'],
  [{ args: [[], {}] }, 'args'],
  [{ args: '[]' }, 'args'],
  [{ args: ' {} ' }, 'args'],
  [{ queue: 'q', meta: {} }, 'meta'],
  [{ queue: [] }, 'queue'],
  [{ tag: '' }, 'tag'],
]

describe('a filter that any job would match', () => {
  test.each(SAYS_NOTHING)('is a 400 that names its member: %j', (filter, field) => {
    const refused = { status: 400, details: { field: `filter.${field}` } }
    const thrown = (run: () => unknown): unknown => {
      try {
        return run()
      } catch (error) {
        return error
      }
    }
    expect(thrown(() => parseJobFilter(filter, 0, 'filter.'))).toMatchObject(refused)
    const body = { filter, confirm: true }
    for (const action of ['retry', 'cancel', 'delete'] as const) {
      expect(thrown(() => adminBulk(action, body, 0, context))).toMatchObject(refused)
      expect(thrown(() => dataBulk(action, { filter }, 0, context))).toMatchObject(refused)
    }
    const purge = thrown(() => deadLetterPurge({ ...filter, confirm: true }, 0, context))
    expect(purge).toMatchObject({ status: 400, details: { field } })
  })

  test.each([[{ args: [0] }], [{ args: [null] }], [{ args: [{}, 'a'] }], [{ args: { a: {} } }]])(
    'is none with a condition: %j',
    ({ args }) => {
      expect(parseJobFilter({ args }, 0).text.args).toEqual(Array.isArray(args) ? args : [args])
    },
  )
})
