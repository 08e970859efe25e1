/** A filter as the query of a list. */
import { filterParameters } from '../../sdk/client/job-filter.ts'
import type { JobFilter } from '../../sdk/index.ts'

export function filterQuery(filter: JobFilter): string {
  const parameters = new URLSearchParams(filterParameters(filter)).toString()
  return parameters === '' ? '' : `?${parameters}`
}
