import { expect, it } from 'vitest'
import { invalidField } from '../../../src/errors.ts'
import { explainItem } from '../../../src/schemas/requests/batch-item.ts'

it.each([
  ['jobs[7].args[0]', 'args[0]'],
  ['jobs[7]', 'body'],
])('an error about %s becomes an error of job 7 in its member %s', (field, own) => {
  const error = explainItem(invalidField(field, `The number '${field}' is too large.`))
  expect(error).toMatchObject({
    details: { index: 7, field: own },
    message: `Batch validation failed: job at index 7: The number '${own}' is too large.`,
  })
})

it.each(['jobs', 'jobs[x]', 'other'])('an error about %s stays an error of the batch', (field) => {
  const error = invalidField(field, 'It is wrong.')
  expect(explainItem(error)).toBe(error)
})
