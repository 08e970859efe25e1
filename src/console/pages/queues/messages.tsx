/** What RabbitMQ has of a queue, beside what the ledger knows of it. */
import type { ReactNode } from 'react'
import type { AdminQueueDetail } from '../../api/openapi.ts'
import { useSession } from '../../api/session.ts'
import { number, orDash } from '../../text/format.ts'
import { t } from '../../text/text.ts'
import { Fact } from '../../ui/fact.tsx'
import { Card } from '../../ui/page.tsx'
import { driftOf } from './drift.ts'

/** Each difference in a sentence. */
export function sentencesOf(drift: ReturnType<typeof driftOf>): string[] {
  return (drift?.reasons ?? []).map((reason) =>
    'count' in reason ? t.drift[reason.what](number(reason.count)) : t.drift[reason.what],
  )
}

export function Messages({ queue }: { queue: AdminQueueDetail }): ReactNode {
  const isOpen = useSession().role !== 'reader'
  const { counts, rabbitmq } = queue
  const drift = driftOf(queue)
  if (rabbitmq === undefined || drift === null) {
    return (
      <Card title={t.drift.title}>
        <p className="faint">{t.drift.unknown}</p>
      </Card>
    )
  }
  const { ready, held, unacknowledged, consumers, held_back: heldBack } = rabbitmq
  return (
    <Card title={t.drift.title}>
      <div className="beside">
        <Side
          name={t.drift.ledger}
          rows={[
            [t.drift.available, counts.available],
            [t.drift.heldBack, heldBack],
            [t.drift.active, counts.active],
          ]}
        />
        <Side
          name={t.drift.rabbitmq}
          rows={[
            [t.drift.ready, ready],
            [t.drift.held, held],
            [t.drift.unacknowledged, unacknowledged],
            [t.drift.consumers, consumers],
          ]}
        />
      </div>
      <ul className="plain">
        {sentencesOf(drift).map((sentence) => (
          <li key={sentence} className={drift.isBad ? 'message' : ''}>
            {sentence}
          </li>
        ))}
        {unacknowledged === undefined && isOpen && <li className="faint">{t.drift.set}</li>}
      </ul>
    </Card>
  )
}

interface SideProps {
  name: string
  rows: readonly [string, number | undefined][]
}

function Side({ name, rows }: SideProps): ReactNode {
  return (
    <div>
      <h3>{name}</h3>
      <dl className="sums">
        {rows.map(([label, count]) => (
          <Fact key={label} name={label}>
            {orDash(count)}
          </Fact>
        ))}
      </dl>
    </div>
  )
}
