/** Of `/admin/failures`. */
import type { Description } from './description.ts'
import { FILTERS } from './job-search.ts'
import { ID } from './members.ts'
import { entity, INSTANT, INTEGER, list, object, TEXT, TRUE, told } from './schema.ts'

const NUMBERS = { type: 'object', additionalProperties: INTEGER }

const GROUP = entity('FailureGroup', {
  'code?': told('Of the errors.'),
  'type?': told('Of the newest error.'),
  pattern: told('What their messages have in common: numbers, ids and quoted texts replaced.'),
  message: told('Of the newest error.'),
  count: INTEGER,
  by_type: NUMBERS,
  by_queue: NUMBERS,
  by_state: NUMBERS,
  first_at: told(
    'When the first of its jobs failed; of a retry, when the failed attempt began.',
    INSTANT,
  ),
  last_at: INSTANT,
  trend: told('How many failed in each of the last 24 hours, the current one last.', list(INTEGER)),
  job_id: told('Its newest job.', ID),
  filter: told(
    'Finds the jobs of the group, here and in actions on many jobs; with the filters of the request.',
    {
      type: 'object',
      additionalProperties: { type: ['string', 'array'], items: TEXT },
    },
  ),
})

export const LIST_FAILURES: Description = {
  id: 'listFailures',
  tag: 'admin',
  summary: 'Group jobs that failed by their errors',
  description:
    'Looks at the newest 10,000 that are `retryable` or `discarded`, or of the states that the filter names.',
  query: FILTERS,
  answers: {
    200: object({
      groups: told('The hundred largest, the largest first.', list(GROUP)),
      total: told('How many groups there are.', INTEGER),
      searched: told('How many jobs were looked at.', INTEGER),
      'search_is_partial?': told('There are more.', TRUE),
    }),
  },
}
