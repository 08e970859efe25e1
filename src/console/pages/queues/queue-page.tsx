/** One queue: its states, what RabbitMQ has of it, its charts, and what can be done with it. */
import { Link, useParams } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { AdminQueueDetail } from '../../api/openapi.ts'
import { useApi } from '../../api/queries.ts'
import { useMay } from '../../api/session.ts'
import { duration, number } from '../../text/format.ts'
import { t } from '../../text/text.ts'
import { Loaded } from '../../ui/answer.tsx'
import { Figure, Page } from '../../ui/page.tsx'
import { State } from '../../ui/state.tsx'
import { States } from '../overview.tsx'
import { Statistics } from '../statistics.tsx'
import { Throughput } from '../throughput.tsx'
import { Settings } from './configure.tsx'
import { Messages } from './messages.tsx'
import { PauseOrResume } from './pause.tsx'
import { Purge } from './purge.tsx'
import { Delete, Drain } from './steer.tsx'

export function QueuePage(): ReactNode {
  const { name } = useParams({ from: '/queues/$name' })
  const queue = useApi(
    'GET /ojs/v1/admin/queues/{name}',
    { path: { name }, query: { include: 'rabbitmq' } },
    { every: 3_000 },
  )
  const data = queue.data
  return (
    <Page
      title={name}
      aside={data && <State of={data.state} />}
      actions={data && <Actions queue={data} />}
    >
      <Loaded of={queue}>{(found) => <Now queue={found} />}</Loaded>
      <Statistics queue={name} />
      {data && <Settings queue={data} />}
    </Page>
  )
}

function Actions({ queue }: { queue: AdminQueueDetail }): ReactNode {
  const may = useMay()
  const { name, state } = queue
  return (
    <>
      <Link className="button" to="/jobs" search={{ q: `queue:${name}` }}>
        {t.queues.jobs}
      </Link>
      <PauseOrResume name={name} isHalted={state !== 'active'} />
      {state === 'active' && <Drain name={name} />}
      {may('DELETE /ojs/v1/admin/queues/{name}/jobs') && <Purge name={name} />}
      <Delete name={name} />
    </>
  )
}

function Now({ queue }: { queue: AdminQueueDetail }): ReactNode {
  const { name, counts, throughput, oldest_available_age_seconds: oldest } = queue
  return (
    <>
      {queue.jobs_left !== undefined && (
        <p className="hint" role="status">
          {queue.drained ? t.queues.drained : t.queues.left(number(queue.jobs_left))}
        </p>
      )}
      <div className="figures">
        <Throughput
          completed={throughput.processed_per_minute}
          failed={throughput.failed_per_minute}
        />
        <Figure
          name={t.overview.oldest}
          value={oldest === undefined ? '–' : duration(oldest * 1_000)}
          note={t.overview.oldestNote}
        />
      </div>
      <States jobs={counts} queue={name} />
      <Messages queue={queue} />
    </>
  )
}
