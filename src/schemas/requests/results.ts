/** The schema of reading many results at once. */
import { id } from './shared-members.ts'
import { parser } from './validator.ts'

/** As many as OJS's document allows. */
const MAX_RESULTS = 100

export interface ResultsRequest {
  ids: string[]
}

export const RESULTS_SCHEMA = {
  title: 'ResultsRequest',
  type: 'object',
  required: ['ids'],
  properties: { ids: { type: 'array', minItems: 1, maxItems: MAX_RESULTS, items: id } },
} as const

export const parseResults = parser<ResultsRequest>(RESULTS_SCHEMA)
