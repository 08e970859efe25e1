/** What runs by itself within the next hour: schedules, retries and recurring jobs in one list. */
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { CronJob, JobItem } from '../api/openapi.ts'
import { useApi } from '../api/queries.ts'
import { useMay } from '../api/session.ts'
import { clock, number } from '../text/format.ts'
import { t } from '../text/text.ts'
import { Loaded } from '../ui/answer.tsx'
import { Empty } from '../ui/empty.tsx'
import { useNow } from '../ui/now.ts'
import { Table } from '../ui/table.tsx'
import { When } from '../ui/when.tsx'
import { useWords } from './cron/words.ts'
import { JobCells } from './jobs/job-cells.tsx'

const HOUR_MS = 3_600_000
/** One page of each. */
const MOST = 100

interface Coming {
  at: string
  /** A job, or the recurring job that will make one. */
  of: JobItem | CronJob
}

export function NextHour(): ReactNode {
  const may = useMay()
  const now = useNow()
  const query = {
    state: 'scheduled,retryable',
    sort: 'scheduled_at',
    order: 'asc',
    limit: MOST,
  } as const
  const jobs = useApi('GET /ojs/v1/admin/jobs', { query }, { every: 3_000 })
  const cron = useApi(
    'GET /ojs/v1/cron',
    { query: { limit: MOST } },
    { every: 10_000, isEnabled: may('GET /ojs/v1/cron') },
  )
  return (
    <Loaded of={jobs}>
      {({ items, pagination }) => {
        const coming = withinAnHour(items, cron.data?.cron_jobs ?? [], now)
        if (coming.length === 0) return <Empty text={t.waiting.noneInAnHour} />
        const isCut = pagination.total > items.length && coming.length >= items.length
        return (
          <>
            <Table label={t.waiting.hour} heads={HEADS}>
              {coming.map((each) => (
                <Row key={'id' in each.of ? each.of.id : each.of.name} coming={each} />
              ))}
            </Table>
            {isCut && <p className="hint">{t.waiting.cut(number(MOST))}</p>}
          </>
        )
      }}
    </Loaded>
  )
}

const HEADS = [t.waiting.due, t.waiting.clock, t.jobs.type, t.jobs.state, t.jobs.queue]

function withinAnHour(jobs: readonly JobItem[], cron: readonly CronJob[], now: number): Coming[] {
  const coming = [
    ...jobs.map((of) => ({ at: of.next_attempt_at ?? of.scheduled_at, of })),
    ...cron.map((of) => ({ at: of.next_run_at ?? undefined, of })),
  ]
  return coming
    .flatMap(({ at, of }) =>
      at !== undefined && Date.parse(at) <= now + HOUR_MS ? [{ at, of }] : [],
    )
    .toSorted((a, b) => Date.parse(a.at) - Date.parse(b.at))
}

function Row({ coming: { at, of } }: { coming: Coming }): ReactNode {
  return (
    <tr>
      <td>
        <When at={at} />
      </td>
      <td>{clock(at)}</td>
      {'id' in of ? <JobCells job={of} /> : <OfCron entry={of} />}
    </tr>
  )
}

/** It may come more than once within the hour; its words tell. */
function OfCron({ entry }: { entry: CronJob }): ReactNode {
  const words = useWords()
  const queue = entry.options?.['queue']
  return (
    <>
      <td>
        {entry.type}
        <div className="faint">
          {t.waiting.recurring(entry.name)} {words(entry.cron)}
        </div>
      </td>
      <td>
        <Link to="/cron" data-row>
          {t.nav.cron}
        </Link>
      </td>
      <td>{typeof queue === 'string' ? queue : 'default'}</td>
    </>
  )
}
