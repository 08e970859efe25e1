/** Of `/admin/audit`. */
import type { Description } from '../description.ts'
import { CURSOR, PAGINATION } from '../members.ts'
import { entity, INSTANT, INTEGER, list, object, TEXT, told } from '../schema.ts'

const RECORD = entity('AuditRecord', {
  id: TEXT,
  timestamp: INSTANT,
  'key?': told('The name of the API key; absent: it had none.'),
  'role?': told('Of the key.'),
  'address?': told('Of the client.'),
  method: TEXT,
  endpoint: told('As `POST /ojs/v1/admin/queues/{name}/pause`.'),
  path: told('What was asked for, with its query; its first 512 characters.'),
  status: told('Of the answer; 0: the client left before it.', INTEGER),
  request_id: told('The log lines of the request have it, too.'),
})

export const LIST_AUDIT: Description = {
  id: 'listAudit',
  tag: 'admin',
  summary: 'List who did what, newest first',
  description:
    'The newest 10,000 requests that steered something (operators’ changes, sign-ins), and those that were refused to a known key. The work itself, PUSH and what workers report, is in the histories of jobs.',
  query: {
    limit: told('Items of a page: 20 if none is named, at most 100.', INTEGER),
    ...CURSOR,
    key: told('Only of the API key of this name.'),
  },
  answers: { 200: object({ items: list(RECORD), pagination: PAGINATION }) },
}
