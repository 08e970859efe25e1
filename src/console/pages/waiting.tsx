/** What will run by itself: scheduled jobs and retries, the next one first. */
import { type ReactNode, useState } from 'react'
import { useApi } from '../api/queries.ts'
import { t } from '../text/text.ts'
import { Choices } from '../ui/choices.tsx'
import { Empty } from '../ui/empty.tsx'
import { Page } from '../ui/page.tsx'
import { PagedTable } from '../ui/paged-table.tsx'
import { usePages } from '../ui/pager.tsx'
import { Raw } from '../ui/raw.tsx'
import { right } from '../ui/table.tsx'
import { When } from '../ui/when.tsx'
import { JobCells } from './jobs/job-cells.tsx'
import { NextHour } from './next-hour.tsx'

/** What comes within the hour; all of a state. */
const VIEWS = {
  hour: t.waiting.hour,
  scheduled: t.states.scheduled,
  retryable: t.states.retryable,
}
type View = keyof typeof VIEWS

export function WaitingPage(): ReactNode {
  const [view, setView] = useState<View>('hour')
  return (
    <Page title={t.nav.waiting}>
      <Choices label={t.waiting.what} of={VIEWS} chosen={view} onChoose={setView} />
      {view === 'hour' ? <NextHour /> : <Jobs key={view} state={view} />}
    </Page>
  )
}

function Jobs({ state }: { state: string }): ReactNode {
  const pages = usePages(50)
  const query = { state, sort: 'scheduled_at', order: 'asc', ...pages.query } as const
  const jobs = useApi('GET /ojs/v1/admin/jobs', { query }, { every: 3_000 })
  return (
    <PagedTable
      of={jobs}
      pages={pages}
      itemsOf={(answer) => answer.items}
      empty={<Empty text={t.waiting.none} />}
      label={t.nav.waiting}
      heads={[
        t.jobs.type,
        t.jobs.state,
        t.jobs.queue,
        right(t.jobs.attempt),
        t.waiting.due,
        t.jobs.error,
      ]}
      row={(job) => (
        <tr key={job.id}>
          <JobCells job={job} />
          <td className="number">
            {job.attempt}/{job.max_attempts}
          </td>
          <td>
            <When at={job.next_attempt_at ?? job.scheduled_at} />
          </td>
          <td className="clip">
            <Raw text={job.error?.code ?? job.error?.message ?? ''} />
          </td>
        </tr>
      )}
    />
  )
}
