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

const STATES = ['scheduled', 'retryable'] as const

export function WaitingPage(): ReactNode {
  const [state, setState] = useState<(typeof STATES)[number]>('scheduled')
  return (
    <Page title={t.nav.waiting}>
      <fieldset className="choices">
        <legend className="hidden">{t.jobs.state}</legend>
        {STATES.map((each) => (
          <button
            key={each}
            type="button"
            aria-pressed={each === state}
            onClick={() => setState(each)}
          >
            {t.states[each]}
          </button>
        ))}
      </fieldset>
      <Jobs key={state} state={state} />
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
