/** Why a job stands where it stands; of one that could run, everything that keeps it waiting. */
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { Answer } from '../../api/client.ts'
import { useApi } from '../../api/queries.ts'
import { useMay } from '../../api/session.ts'
import { term } from '../../search/query.ts'
import { duration, instant, number } from '../../text/format.ts'
import { t } from '../../text/text.ts'
import { Raw } from '../../ui/raw.tsx'
import type { ShownJob } from './shown-job.ts'

type Queue = Answer<'GET /ojs/v1/admin/queues/{name}'>
type Workers = Answer<'GET /ojs/v1/admin/workers'>

/** One page of workers; if there are more, nobody says that none takes jobs of a queue. */
const WORKERS = 100

export function Why({ job }: { job: ShownJob }): ReactNode {
  return (
    <div className="why">
      <p>
        <Raw text={whyOf(job)} />
      </p>
      {job.state === 'available' && <Waits job={job} />}
    </div>
  )
}

/** What the state means for this job, in a sentence. */
function whyOf(job: ShownJob): string {
  const attempts = `${number(job.attempt)}/${number(job.max_attempts)}`
  if (job.state === 'active') return t.job.why.active(attempts, job.worker_id ?? '?')
  if (job.state === 'retryable') return t.job.why.retryable(attempts)
  if (job.state === 'discarded') return t.job.why.discarded(attempts)
  return t.job.why[job.state]
}

function Waits({ job }: { job: ShownJob }): ReactNode {
  const may = useMay()
  const queue = useApi(
    'GET /ojs/v1/admin/queues/{name}',
    { path: { name: job.queue }, query: { include: 'rabbitmq' } },
    { every: 3_000, isEnabled: may('GET /ojs/v1/admin/queues/{name}') },
  )
  const workers = useApi(
    'GET /ojs/v1/admin/workers',
    { query: { limit: WORKERS } },
    { every: 5_000, isEnabled: may('GET /ojs/v1/admin/workers') },
  )
  if (queue.data === undefined) return null
  return (
    <ul>
      {reasonsFor(job, queue.data, workers.data).map((reason) => (
        <li key={reason}>
          <Raw text={reason} />
        </li>
      ))}
      <li>
        <Link to="/queues/$name" params={{ name: job.queue }}>
          {t.job.waits.toQueue(job.queue)}
        </Link>
        {' · '}
        <Link to="/jobs" search={{ q: `state:active ${term('queue', job.queue)}` }}>
          {t.job.waits.toRunning(job.queue)}
        </Link>
      </li>
    </ul>
  )
}

/** What is certain first. A job that has lost its message needs no worker but an operator. */
function reasonsFor(job: ShownJob, queue: Queue, workers: Workers | undefined): string[] {
  const { counts, rabbitmq } = queue
  const missing = rabbitmq?.missing ?? 0
  const reasons = [
    ...(queue.paused ? [pausedSince(queue)] : []),
    ...(job.held_by === undefined ? [] : [heldBy(job, job.held_by.concurrency)]),
    ...limitOf(job),
    ...(missing > 0 ? [t.job.waits.lost(number(missing))] : []),
    ...(missing > 0 || isTakenBySomebody(queue, workers) ? [] : [t.job.waits.nobody(job.queue)]),
  ]
  if (reasons.length > 0) return reasons
  const others = counts.available - 1
  return [others > 0 ? t.job.waits.turn(number(others)) : t.job.waits.next]
}

function pausedSince({ name, paused_at: at }: Queue): string {
  return at === undefined ? t.job.waits.paused(name) : t.job.waits.pausedSince(name, instant(at))
}

function heldBy({ concurrency }: ShownJob, key: string): string {
  const limit = numberIn(concurrency, 'limit')
  return t.job.waits.key(key, limit === undefined ? '' : number(limit))
}

function limitOf(job: ShownJob): string[] {
  const perSecond = numberIn(job.rate_limit, 'max_per_second')
  if (perSecond === undefined || perSecond <= 0) return []
  // A fraction makes the window longer, up to an hour, as the gateway has it.
  const starts = Math.max(1, Math.floor(perSecond))
  const windowMs = Math.min((starts / perSecond) * 1_000, 3_600_000)
  return [t.job.waits.rate(number(starts), duration(windowMs))]
}

function numberIn(value: unknown, name: string): number | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const found: unknown = Reflect.get(value, name)
  return typeof found === 'number' ? found : undefined
}

/** True where it is not known. */
function isTakenBySomebody({ name, throughput }: Queue, workers: Workers | undefined): boolean {
  if (workers === undefined || workers.pagination.total > workers.items.length) return true
  if (throughput.processed_per_minute > 0) return true
  return workers.items.some(
    ({ queues, state, directive }) =>
      queues.includes(name) && state !== 'stale' && directive === 'running',
  )
}
