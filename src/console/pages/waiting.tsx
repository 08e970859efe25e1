/** What will run by itself: scheduled jobs and retries, the next one first. */
import { Link } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import { useApi } from '../api/queries.ts'
import { t } from '../text/text.ts'
import { Empty } from '../ui/empty.tsx'
import { Page } from '../ui/page.tsx'
import { PagedTable } from '../ui/paged-table.tsx'
import { usePages } from '../ui/pager.tsx'
import { Raw } from '../ui/raw.tsx'
import { State } from '../ui/state.tsx'
import { When } from '../ui/when.tsx'
import { NextHour } from './next-hour.tsx'

/** What comes within the hour; all of a state. */
const VIEWS = ['hour', 'scheduled', 'retryable'] as const
type View = (typeof VIEWS)[number]

export function WaitingPage(): ReactNode {
  const [view, setView] = useState<View>('hour')
  return (
    <Page title={t.nav.waiting}>
      <fieldset className="choices">
        <legend className="hidden">{t.waiting.what}</legend>
        {VIEWS.map((each) => (
          <button
            key={each}
            type="button"
            aria-pressed={each === view}
            onClick={() => setView(each)}
          >
            {each === 'hour' ? t.waiting.hour : t.states[each]}
          </button>
        ))}
      </fieldset>
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
      heads={[t.jobs.type, t.jobs.state, t.jobs.queue, t.jobs.attempt, t.waiting.due, t.jobs.error]}
      row={(job) => (
        <tr key={job.id}>
          <td>
            <Link to="/jobs/$id" params={{ id: job.id }} data-row>
              {job.type}
            </Link>
          </td>
          <td>
            <State of={job.state} />
          </td>
          <td>{job.queue}</td>
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
