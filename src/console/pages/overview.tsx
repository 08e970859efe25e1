/** How things stand: what is wrong, how much happens, and what waits. */
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { Answer } from '../api/client.ts'
import type { Health, JobCounts } from '../api/openapi.ts'
import { useApi } from '../api/queries.ts'
import { useSession } from '../api/session.ts'
import { duration, short } from '../text/format.ts'
import { t } from '../text/text.ts'
import { Loaded } from '../ui/answer.tsx'
import { Empty } from '../ui/empty.tsx'
import { pushLine } from '../ui/lines.ts'
import { Figure, Page } from '../ui/page.tsx'
import { JOB_STATES, State } from '../ui/state.tsx'
import { QueuesPage } from './queues/queues-page.tsx'
import { Statistics } from './statistics.tsx'
import { Throughput } from './throughput.tsx'

/** A key of some queues sees these: there is no overview of them together. */
export function OverviewPage(): ReactNode {
  return useSession().queues === undefined ? <Overview /> : <QueuesPage />
}

function Overview(): ReactNode {
  const stats = useApi('GET /ojs/v1/admin/stats', {}, { every: 2_000 })
  const health = useApi('GET /ojs/v1/health', {}, { every: 3_000 })
  return (
    <Page
      title={t.nav.overview}
      aside={health.data && !health.isError && <HealthWord health={health.data} />}
    >
      {health.data && <Warnings health={health.data} />}
      <Loaded of={stats}>{(answer) => <Figures stats={answer} />}</Loaded>
      <Statistics />
    </Page>
  )
}

function HealthWord({ health }: { health: Health }): ReactNode {
  const { status, warnings = [] } = health
  if (status !== 'ok') return <span className="state red">{t.health.degraded}</span>
  if (warnings.length > 0) {
    return <span className="state amber">{t.health.warnings(warnings.length)}</span>
  }
  return <span className="state green">{t.health.ok}</span>
}

function Warnings({ health }: { health: Health }): ReactNode {
  const { backend, ledger, warnings = [] } = health
  const troubles = [
    ...(backend.status === 'connected' ? [] : [brokenBackend(backend)]),
    ...(ledger.status === 'writable' ? [] : [{ code: 'ledger', message: ledger.error ?? '' }]),
    ...warnings,
  ]
  if (troubles.length === 0) return null
  return (
    <ul className="warnings">
      {troubles.map(({ code, message }) => (
        <li key={`${code} ${message}`} className="warning">
          <strong>{advice(code).title}</strong>
          <p>{message}</p>
          {advice(code).todo !== '' && <p className="faint">{advice(code).todo}</p>}
        </li>
      ))}
    </ul>
  )
}

function brokenBackend({ status, error = '' }: Health['backend']) {
  return { code: `backend_${status}`, message: error }
}

function advice(code: string): { title: string; todo: string } {
  const known: Readonly<Record<string, { title: string; todo: string }>> = t.health.advice
  return known[code] ?? { title: code.replaceAll('_', ' '), todo: '' }
}

type Stats = Answer<'GET /ojs/v1/admin/stats'>

function Figures({ stats }: { stats: Stats }): ReactNode {
  const { jobs, throughput, worker_summary: workers, queue_summary: queues } = stats
  const isUnused = Object.values(jobs).every((count) => count === 0)
  const oldest = stats.oldest_available_age_seconds
  return (
    <>
      <div className="figures">
        <Throughput completed={throughput.completed_per_min} failed={throughput.failed_per_min} />
        <Figure
          name={t.overview.latency}
          value={
            throughput.avg_latency_ms === undefined ? '–' : duration(throughput.avg_latency_ms)
          }
          note={t.overview.latencyNote}
        />
        <Figure
          name={t.overview.oldest}
          value={oldest === undefined ? '–' : duration(oldest * 1_000)}
          note={t.overview.oldestNote}
          tone={oldest !== undefined && oldest > 300 ? 'warn' : undefined}
        />
        <Figure
          name={t.overview.workers}
          value={short(workers.running)}
          note={workers.stale > 0 ? t.overview.stale(workers.stale) : t.overview.running}
          tone={workers.stale > 0 ? 'warn' : undefined}
        />
        <Figure
          name={t.overview.queues}
          value={short(queues.total)}
          note={queues.paused > 0 ? t.overview.paused(queues.paused) : t.overview.nonePaused}
          tone={queues.paused > 0 ? 'warn' : undefined}
        />
      </div>
      <States jobs={jobs} />
      {isUnused && <Empty text={t.overview.empty} line={pushLine()} />}
    </>
  )
}

/** How many jobs are in each state, each a link to them. */
export function States({ jobs, queue }: { jobs: JobCounts; queue?: string }): ReactNode {
  const ofQueue = queue === undefined ? '' : ` queue:${queue}`
  return (
    <ul className="counts">
      {JOB_STATES.map((state) => (
        <li key={state}>
          <Link to="/jobs" search={{ q: `state:${state}${ofQueue}` }}>
            <State of={state} />
            <b>{short(jobs[state])}</b>
          </Link>
        </li>
      ))}
    </ul>
  )
}
