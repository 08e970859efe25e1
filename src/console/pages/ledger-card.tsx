/** How large the ledger is, how it grows, and how long it keeps what has ended. */
import type { ReactNode } from 'react'
import { useApi } from '../api/queries.ts'
import { bytes, number } from '../text/format.ts'
import { t } from '../text/text.ts'
import { Loaded } from '../ui/answer.tsx'
import { Fact } from '../ui/fact.tsx'
import { Card } from '../ui/page.tsx'
import { When } from '../ui/when.tsx'

export function LedgerCard(): ReactNode {
  const ledger = useApi('GET /ojs/v1/admin/system/ledger', {}, { every: 10_000 })
  return (
    <Card title={t.system.ledger}>
      <Loaded of={ledger}>
        {(found) => (
          <dl className="facts">
            <Fact name={t.system.size}>
              {bytes(found.bytes)}{' '}
              <span className="faint">{t.system.free(bytes(found.free_bytes))}</span>
            </Fact>
            <Fact name={t.system.growth}>
              {bytes(found.bytes - found.bytes_at_start)}{' '}
              <span className="faint">
                (<When at={found.started_at} />)
              </span>
            </Fact>
            <Fact name={t.system.kept}>
              {t.system.keptJobs(
                number(found.jobs),
                number(found.dead_letters),
                number(found.queues),
              )}
            </Fact>
            <Fact name={t.system.owed}>{number(found.owed_messages)}</Fact>
          </dl>
        )}
      </Loaded>
    </Card>
  )
}
