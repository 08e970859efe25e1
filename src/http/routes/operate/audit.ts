/** Who did what: the newest audit records. */
import { timestamp } from '../../../job/document.ts'
import { type AuditRecord, listAudit } from '../../../operations/audit.ts'
import { adminPageOf, cursorPagination, type Page } from '../../message/page.ts'
import { filterText } from '../../message/query.ts'
import { answer } from '../../message/respond.ts'
import { LIST_AUDIT } from '../../openapi/operate/audit.ts'
import type { Endpoint } from '../../route.ts'
import type { Door } from '../route-deps.ts'

/** Audit records (not part of OJS's documents). */
export function auditRoutes({ deps }: Pick<Door, 'deps'>): Endpoint[] {
  return [
    {
      method: 'GET',
      path: '/ojs/v1/admin/audit',
      about: LIST_AUDIT,
      access: ['operator'],
      async handle(request, response) {
        const page = adminPageOf(request)
        const { limit } = page
        const key = filterText(request, 'key')
        const { records, total } = await listAudit(deps, { before: placeIn(page), limit, key })
        const last = records.at(-1)
        const next = last !== undefined && records.length === limit ? [last.number] : null
        const pagination = cursorPagination(request, page, { total, isBound: false, next })
        answer(response, 200, JSON.stringify({ items: records.map(documentOf), pagination }))
      },
    },
  ]
}

/** An offset is a way into a list that grows at its front all the time: only a cursor leads on. */
function placeIn({ position }: Page): number | null {
  return position?.[0] ?? null
}

function documentOf(record: AuditRecord & { number: number }): object {
  const { number, at, requestId, key, role, address, method, route, path, status } = record
  return {
    id: String(number),
    timestamp: timestamp(at),
    ...(key !== null && { key, role }),
    ...(address !== null && { address }),
    method,
    endpoint: `${method} ${route.replace(/:(\w+)/g, '{$1}')}`,
    path,
    status,
    request_id: requestId,
  }
}
