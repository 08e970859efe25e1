/** When an expression comes next, on the clocks of its zone and on those of this browser. */
import type { ReactNode } from 'react'
import { useApi } from '../../api/queries.ts'
import { inZone, OWN_ZONE } from '../../text/format.ts'
import { t } from '../../text/text.ts'
import { Loaded } from '../../ui/answer.tsx'
import { Table } from '../../ui/table.tsx'
import { When } from '../../ui/when.tsx'
import { clocksOf } from './words.ts'

interface NextTimesProps {
  expression: string
  timezone: string
}

export function NextTimes({ expression, timezone }: NextTimesProps): ReactNode {
  const query = { expression, timezone, limit: 5 }
  const next = useApi('GET /ojs/v1/admin/cron/times', { query }, { every: 60_000 })
  const clocks = clocksOf(expression)
  const isOwn = timezone === OWN_ZONE
  return (
    <Loaded of={next}>
      {({ times }) => (
        <Table
          label={t.cron.nextTimes}
          heads={[timezone, ...(isOwn ? [] : [t.cron.here(OWN_ZONE)]), t.cron.next]}
        >
          {times.map((at) => (
            <tr key={at}>
              <td>{inZone(at, timezone, clocks)}</td>
              {!isOwn && <td>{inZone(at, OWN_ZONE, clocks)}</td>}
              <td>
                <When at={at} />
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Loaded>
  )
}
