/** How large the ledger is, and by how much it has grown. */
import { timestamp } from '../../../job/document.ts'
import { ledgerReport } from '../../../operations/ledger-report.ts'
import { answer } from '../../message/respond.ts'
import { GET_LEDGER } from '../../openapi/operate/maintenance.ts'
import type { Endpoint } from '../../route.ts'
import type { Door } from '../route-deps.ts'

/** The ledger (not part of OJS's documents). */
export function ledgerRoutes({ deps, ledgerAtStart }: Door): Endpoint[] {
  return [
    {
      method: 'GET',
      path: '/ojs/v1/admin/system/ledger',
      about: GET_LEDGER,
      access: ['operator'],
      async handle(_request, response) {
        const { bytes, freeBytes, jobs, deadLetters, queues, owedMessages } =
          await ledgerReport(deps)
        const body = {
          bytes,
          free_bytes: freeBytes,
          bytes_at_start: ledgerAtStart.bytes,
          started_at: timestamp(ledgerAtStart.at),
          jobs,
          dead_letters: deadLetters,
          queues,
          owed_messages: owedMessages,
        }
        answer(response, 200, JSON.stringify(body))
      },
    },
  ]
}
