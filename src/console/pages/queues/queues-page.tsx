/** All queues: what is in them, how fast they move, and whether they do. */
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { AdminQueue } from '../../api/openapi.ts'
import { useApi } from '../../api/queries.ts'
import { duration, number, short } from '../../text/format.ts'
import { t } from '../../text/text.ts'
import { Empty } from '../../ui/empty.tsx'
import { pushLine } from '../../ui/lines.ts'
import { Page } from '../../ui/page.tsx'
import { PagedTable } from '../../ui/paged-table.tsx'
import { usePages } from '../../ui/pager.tsx'
import { State } from '../../ui/state.tsx'
import { right } from '../../ui/table.tsx'
import { driftOf } from './drift.ts'
import { sentencesOf } from './messages.tsx'
import { PauseOrResume } from './pause.tsx'

export function QueuesPage(): ReactNode {
  const pages = usePages(50)
  const queues = useApi(
    'GET /ojs/v1/admin/queues',
    { query: { ...pages.query, include: 'rabbitmq' } },
    { every: 3_000 },
  )
  return (
    <Page title={t.nav.queues}>
      <PagedTable
        of={queues}
        pages={pages}
        itemsOf={(answer) => answer.items}
        empty={<Empty text={t.queues.empty} line={pushLine()} />}
        label={t.nav.queues}
        heads={HEADS}
        row={(queue) => <Row key={queue.name} queue={queue} />}
      />
    </Page>
  )
}

const HEADS = [
  t.queues.name,
  right(t.states.available),
  right(t.states.active),
  right(t.queues.messages),
  right(t.states.scheduled),
  right(t.states.retryable),
  right(t.states.discarded),
  right(t.queues.rate),
  right(t.queues.failures),
  right(t.queues.oldest),
  t.queues.actions,
]

function Row({ queue }: { queue: AdminQueue }): ReactNode {
  const { name, state, counts, throughput, oldest_available_age_seconds: oldest } = queue
  const drift = driftOf(queue)
  return (
    <tr>
      <td>
        <Link to="/queues/$name" params={{ name }} data-row>
          {name}
        </Link>{' '}
        {state !== 'active' && <State of={state} />}
      </td>
      <td className="number">{short(counts.available)}</td>
      <td className="number">{short(counts.active)}</td>
      <td className={drift?.isBad ? 'number bad' : 'number'} title={sentencesOf(drift).join(' ')}>
        {messagesIn(queue)}
      </td>
      <td className="number">{short(counts.scheduled)}</td>
      <td className="number">{short(counts.retryable)}</td>
      <td className={counts.discarded > 0 ? 'number bad' : 'number'}>{short(counts.discarded)}</td>
      <td className="number">{number(throughput.processed_per_minute)}</td>
      <td className="number">{number(throughput.failed_per_minute)}</td>
      <td className="number">{oldest === undefined ? '–' : duration(oldest * 1_000)}</td>
      <td>
        <PauseOrResume name={name} isHalted={state !== 'active'} />
      </td>
    </tr>
  )
}

/** Ready, and unacknowledged at all consumers; without the management API at this gateway. */
function messagesIn({ rabbitmq }: AdminQueue): string {
  if (rabbitmq === undefined) return '–'
  const { ready, held, unacknowledged } = rabbitmq
  return `${short(ready)} + ${short(Math.max(held, unacknowledged ?? 0))}`
}
