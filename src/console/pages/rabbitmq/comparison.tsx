/** Whether RabbitMQ still has a message of every job that waits or runs, queue by queue. */
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { AdminQueue } from '../../api/openapi.ts'
import { useApi } from '../../api/queries.ts'
import { useMay } from '../../api/session.ts'
import { number } from '../../text/format.ts'
import { t } from '../../text/text.ts'
import { Loaded } from '../../ui/answer.tsx'
import { Card } from '../../ui/page.tsx'
import { driftOf } from '../queues/drift.ts'
import { sentencesOf } from '../queues/messages.tsx'

const MOST = 100

export function Comparison(): ReactNode {
  const may = useMay()
  const queues = useApi(
    'GET /ojs/v1/admin/queues',
    { query: { limit: MOST, include: 'rabbitmq' } },
    { every: 5_000, isEnabled: may('GET /ojs/v1/admin/queues') },
  )
  if (!may('GET /ojs/v1/admin/queues')) return null
  return (
    <Card title={t.drift.title}>
      <Loaded of={queues}>
        {({ items, pagination }) => (
          <>
            <Differences queues={items} />
            {pagination.total > items.length && (
              <p className="hint note-below">{t.drift.first(number(items.length))}</p>
            )}
          </>
        )}
      </Loaded>
    </Card>
  )
}

function Differences({ queues }: { queues: readonly AdminQueue[] }): ReactNode {
  const compared = queues.map((queue) => ({ queue, drift: driftOf(queue) }))
  const differing = compared.filter(({ drift }) => drift?.reasons.some((each) => 'count' in each))
  const known = compared.filter(({ drift }) => drift !== null).length
  if (known === 0) return <p className="faint">{t.drift.unknown}</p>
  if (differing.length === 0) return <p>{t.drift.allThere(number(known))}</p>
  return (
    <ul className="plain">
      {differing.map(({ queue, drift }) => (
        <li key={queue.name} className={drift?.isBad ? 'message' : ''}>
          <Link to="/queues/$name" params={{ name: queue.name }}>
            {queue.name}
          </Link>
          {': '}
          {sentencesOf(drift).join(' ')}
        </li>
      ))}
    </ul>
  )
}
