/** One job: how it stands and why, what it carries, and what happened to it. */
import { Link, useParams } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useApi } from '../../api/queries.ts'
import { useMay } from '../../api/session.ts'
import { term } from '../../search/query.ts'
import { duration, number } from '../../text/format.ts'
import { t } from '../../text/text.ts'
import { Loaded } from '../../ui/answer.tsx'
import { CopyButton } from '../../ui/copy.tsx'
import { Fact } from '../../ui/fact.tsx'
import { Card, Page } from '../../ui/page.tsx'
import { Raw } from '../../ui/raw.tsx'
import { State } from '../../ui/state.tsx'
import { Tree } from '../../ui/tree.tsx'
import { When } from '../../ui/when.tsx'
import { Attempts } from './attempts.tsx'
import { Decoded } from './decoded.tsx'
import { JobActions } from './job-actions.tsx'
import { JobProgress } from './job-progress.tsx'
import { Message } from './message.tsx'
import type { ShownJob } from './shown-job.ts'
import { Timeline } from './timeline.tsx'
import { TraceLink } from './trace-link.tsx'
import { Why } from './why.tsx'

export function JobPage(): ReactNode {
  const { id } = useParams({ from: '/jobs/$id' })
  const job = useApi('GET /ojs/v1/admin/jobs/{id}', { path: { id } }, { every: 2_000 })
  const { data } = job
  return (
    <Page
      title={data?.type ?? t.job.title}
      aside={data && <State of={data.state} />}
      actions={data && <JobActions job={data} />}
    >
      <Loaded of={job}>{(found) => <Whole job={found} />}</Loaded>
    </Page>
  )
}

function Whole({ job }: { job: ShownJob }): ReactNode {
  const may = useMay()
  const isSeen = job.payload_withheld !== true
  return (
    <div className="job">
      <Why job={job} />
      <Card title={t.job.facts}>
        <Facts job={job} />
      </Card>
      {job.state === 'active' && may('GET /ojs/v1/jobs/{id}/progress') && (
        <JobProgress id={job.id} />
      )}
      {(job.errors ?? []).length > 0 && <Attempts errors={job.errors ?? []} />}
      {isSeen ? <Values job={job} /> : <p className="hint">{t.job.withheld}</p>}
      {may('GET /ojs/v1/jobs/{id}/history') && <Timeline id={job.id} state={job.state} />}
      {may('GET /ojs/v1/admin/jobs/{id}/message') && <Message id={job.id} />}
    </div>
  )
}

function Facts({ job }: { job: ShownJob }): ReactNode {
  const may = useMay()
  const rows: [string, ReactNode][] = [
    [
      t.job.id,
      <>
        <code>{job.id}</code> <CopyButton text={job.id} />
      </>,
    ],
    [
      t.jobs.queue,
      <Link key="queue" to="/queues/$name" params={{ name: job.queue }}>
        {job.queue}
      </Link>,
    ],
    [t.jobs.attempt, `${job.attempt} / ${job.max_attempts}`],
    [t.job.priority, number(job.priority)],
    [t.job.created, <When key="created" at={job.created_at} />],
    ...timesOf(job).map(([name, at]): [string, ReactNode] => [name, <When key={name} at={at} />]),
    [t.job.timeout, job.timeout_ms === 0 ? t.job.noLimit : duration(job.timeout_ms)],
    ...(job.worker_id
      ? [[t.job.worker, <OfWorker key="worker" id={job.worker_id} />] as [string, ReactNode]]
      : []),
    ...(job.tags.length > 0
      ? [[t.job.tags, <Raw key="tags" text={job.tags.join(', ')} />] as [string, ReactNode]]
      : []),
    ...(job.trace_id
      ? [[t.job.trace, <TraceLink key="trace" id={job.trace_id} />] as [string, ReactNode]]
      : []),
    ...(job.generation ? [[t.job.generation, job.generation] as [string, ReactNode]] : []),
  ]
  const others: [string, string | undefined][] = [
    [t.job.copyOf, job.copy_of],
    [t.job.retriedAs, job.retried_as],
  ]
  return (
    <dl className="facts">
      {rows.map(([name, value]) => (
        <Fact key={name} name={name}>
          {value}
        </Fact>
      ))}
      {others.map(
        ([name, id]) =>
          id !== undefined && (
            <Fact key={name} name={name}>
              <Link to="/jobs/$id" params={{ id }}>
                {id}
              </Link>
            </Fact>
          ),
      )}
      {job.workflow_id !== undefined && may('GET /ojs/v1/workflows/{id}') && (
        <Fact name={t.job.workflow}>
          <Link to="/workflows/$id" params={{ id: job.workflow_id }}>
            {job.workflow_id}
          </Link>
        </Fact>
      )}
    </dl>
  )
}

/** Leads to what else it has. */
function OfWorker({ id }: { id: string }): ReactNode {
  return (
    <Link to="/jobs" search={{ q: term('worker', id) }}>
      <Raw text={id} />
    </Link>
  )
}

/** The times that there are, in the order of a job's life. */
function timesOf(job: ShownJob): [string, string][] {
  const times: [string, string | undefined][] = [
    [t.job.scheduled, job.scheduled_at],
    [t.job.started, job.started_at],
    [t.job.next, job.next_attempt_at],
    [t.job.completed, job.state === 'completed' ? job.completed_at : undefined],
    [t.job.cancelled, job.cancelled_at],
    [t.job.discarded, job.discarded_at],
    [t.job.expires, job.expires_at],
  ]
  return times.flatMap(([name, at]) => (at ? [[name, at] as [string, string]] : []))
}

function Values({ job }: { job: ShownJob }): ReactNode {
  const values: [string, unknown, ReactNode?][] = [
    [t.job.args, job.args, <Decoded key="args" job={job} />],
    [t.job.meta, job.meta],
    [t.job.result, job.result],
  ]
  return values.map(
    ([name, value, more]) =>
      !isEmpty(value) && (
        <Card key={name} title={name}>
          <Tree value={value} name={name} />
          {more}
        </Card>
      ),
  )
}

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null) return true
  return typeof value === 'object' && !Array.isArray(value) && Object.keys(value).length === 0
}
