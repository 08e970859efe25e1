/** Who may be stuck, on what, and how long such jobs take. */
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { JobItem } from '../../api/openapi.ts'
import { useApis } from '../../api/queries.ts'
import { useMay } from '../../api/session.ts'
import { duration } from '../../text/format.ts'
import { t } from '../../text/text.ts'
import { useNow } from '../../ui/now.ts'
import { Raw } from '../../ui/raw.tsx'
import { mayBeStuck, runsMs, type Stuck, stuckOf, type Usual, usualIn } from './stuck.ts'

/** Of as many queues it is asked how long their jobs take. */
const MOST_QUEUES = 20

export function useStuck(longest: ReadonlyMap<string, JobItem>): readonly Stuck[] {
  const now = useNow()
  const may = useMay()
  const long = [...longest.values()].filter((job) => mayBeStuck(job, now))
  const queues = [...new Set(long.map(({ queue }) => queue))].slice(0, MOST_QUEUES)
  const answers = useApis(
    'GET /ojs/v1/admin/stats/history',
    queues.map((queue) => ({ query: { period: '1d', since: 'PT24H', queue } })),
    { every: 60_000, isEnabled: may('GET /ojs/v1/admin/stats/history') },
  )
  const usual = new Map<string, Usual>()
  for (const [at, queue] of queues.entries()) {
    const points = answers[at]?.data?.data
    if (points !== undefined) usual.set(queue, usualIn(points))
  }
  return stuckOf(longest, usual, now)
}

export function StuckWorkers({ of }: { of: readonly Stuck[] }): ReactNode {
  const now = useNow()
  if (of.length === 0) return null
  return (
    <ul className="warnings">
      {of.map(({ id, job, usual }) => (
        <li key={id} className="warning">
          <strong>
            <Raw text={t.workers.stuck(id)} />
          </strong>
          <p>
            {t.workers.runsFor(job.type, duration(runsMs(job, now)))}{' '}
            <Link to="/jobs/$id" params={{ id: job.id }}>
              {t.workers.showJob}
            </Link>
          </p>
          <p className="faint">
            {usual === null
              ? t.workers.noUsual(job.queue)
              : t.workers.usual(job.queue, duration(usual))}
          </p>
        </li>
      ))}
    </ul>
  )
}
