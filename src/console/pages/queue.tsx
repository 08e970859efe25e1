/** One queue: its states, its charts, and what can be done with it. */
import { Link, useParams } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useApi } from '../api/queries.ts'
import { useMay } from '../api/session.ts'
import { duration, number } from '../text/format.ts'
import { t } from '../text/text.ts'
import { Loaded } from '../ui/answer.tsx'
import { Figure, Page } from '../ui/page.tsx'
import { State } from '../ui/state.tsx'
import { States } from './overview.tsx'
import { PauseOrResume } from './pause-queue.tsx'
import { Purge } from './purge-queue.tsx'
import { Statistics } from './statistics.tsx'

export function QueuePage(): ReactNode {
  const { name } = useParams({ from: '/queues/$name' })
  const may = useMay()
  const queue = useApi('GET /ojs/v1/admin/queues/{name}', { path: { name } }, { every: 3_000 })
  const data = queue.data
  return (
    <Page
      title={name}
      aside={data && <State of={data.state} />}
      actions={
        data && (
          <>
            <Link className="button" to="/jobs" search={{ q: `queue:${name}` }}>
              {t.queues.jobs}
            </Link>
            <PauseOrResume name={name} isPaused={data.paused} />
            {may('DELETE /ojs/v1/admin/queues/{name}/jobs') && <Purge name={name} />}
          </>
        )
      }
    >
      <Loaded of={queue}>
        {({ counts, throughput, oldest_available_age_seconds: oldest }) => (
          <>
            <div className="figures">
              <Figure
                name={t.overview.completed}
                value={number(throughput.processed_per_minute)}
                note={t.overview.perMinute}
              />
              <Figure
                name={t.overview.failed}
                value={number(throughput.failed_per_minute)}
                note={t.overview.perMinute}
                tone={throughput.failed_per_minute > 0 ? 'bad' : undefined}
              />
              <Figure
                name={t.overview.oldest}
                value={oldest === undefined ? '–' : duration(oldest * 1_000)}
                note={t.overview.oldestNote}
              />
            </div>
            <States jobs={counts} queue={name} />
          </>
        )}
      </Loaded>
      <Statistics queue={name} />
    </Page>
  )
}
