/** Who works: on what, for how long, and since when nobody has heard of them. */
import { Link } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import { call } from '../../api/client.ts'
import type { JobItem, Worker } from '../../api/openapi.ts'
import { useApi } from '../../api/queries.ts'
import { useMay } from '../../api/session.ts'
import { duration, number } from '../../text/format.ts'
import { t } from '../../text/text.ts'
import { Action } from '../../ui/action.tsx'
import { Loaded } from '../../ui/answer.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { fetchLine } from '../../ui/lines.ts'
import { useNow } from '../../ui/now.ts'
import { Page } from '../../ui/page.tsx'
import { PagedTable } from '../../ui/paged-table.tsx'
import { usePages } from '../../ui/pager.tsx'
import { Raw } from '../../ui/raw.tsx'
import { State } from '../../ui/state.tsx'
import { right, Table } from '../../ui/table.tsx'
import { When } from '../../ui/when.tsx'
import { longestByWorker, runsMs } from './stuck.ts'
import { StuckWorkers, useStuck } from './stuck-workers.tsx'

/** Of the jobs that run, those that have run longest. */
const LONGEST = { state: 'active', sort: 'updated_at', order: 'asc', limit: 100 } as const

export function WorkersPage(): ReactNode {
  const pages = usePages(50)
  const may = useMay()
  const isEnabled = may('GET /ojs/v1/admin/jobs')
  const active = useApi('GET /ojs/v1/admin/jobs', { query: LONGEST }, { every: 10_000, isEnabled })
  const longest = longestByWorker(active.data?.items ?? [])
  const stuck = useStuck(longest)
  const workers = useApi('GET /ojs/v1/admin/workers', { query: pages.query }, { every: 3_000 })
  return (
    <Page title={t.nav.workers}>
      <StuckWorkers of={stuck} />
      <PagedTable
        of={workers}
        pages={pages}
        itemsOf={(answer) => answer.items}
        empty={<Empty text={t.workers.none} line={fetchLine()} />}
        label={t.nav.workers}
        heads={[
          t.workers.id,
          t.workers.state,
          right(t.workers.jobs),
          t.workers.longest,
          t.workers.queues,
          t.workers.host,
          t.workers.heard,
          t.queues.actions,
        ]}
        row={(worker) => (
          <Row
            key={worker.id}
            worker={worker}
            longest={longest.get(worker.id)}
            isStuck={stuck.some(({ id }) => id === worker.id)}
          />
        )}
      />
    </Page>
  )
}

interface RowProps {
  worker: Worker
  longest: JobItem | undefined
  isStuck: boolean
}

function Row({ worker, longest, isStuck }: RowProps): ReactNode {
  const [isOpen, setOpen] = useState(false)
  const { id, state, active_jobs: jobs, concurrency, hostname, version } = worker
  return (
    <tr>
      <td>
        <button type="button" className="link" data-row onClick={() => setOpen(true)}>
          <Raw text={id} />
        </button>
        {isOpen && <JobsOf id={id} onClose={() => setOpen(false)} />}
      </td>
      <td>
        <State of={state} /> {isStuck && <State of="stuck" />}
      </td>
      <td className="number">
        {number(jobs)}
        {concurrency !== undefined && ` / ${number(concurrency)}`}
      </td>
      <td>{longest === undefined ? '–' : <Running job={longest} />}</td>
      <td>{worker.queues.join(', ')}</td>
      <td>
        <Raw text={hostname ?? '–'} />
        {version !== undefined && (
          <div className="faint">
            <Raw text={version} />
          </div>
        )}
      </td>
      <td>
        <When at={worker.last_heartbeat_at} />
      </td>
      <td>
        <WorkerActions worker={worker} />
      </td>
    </tr>
  )
}

/** For how long, and what. */
function Running({ job }: { job: JobItem }): ReactNode {
  const now = useNow()
  return (
    <>
      {duration(runsMs(job, now))}
      <div>
        <Link to="/jobs/$id" params={{ id: job.id }}>
          {job.type}
        </Link>
      </div>
    </>
  )
}

function WorkerActions({ worker: { id, state, directive } }: { worker: Worker }): ReactNode {
  const may = useMay()
  const path = { id }
  if (state === 'stale') {
    if (!may('DELETE /ojs/v1/admin/workers/{id}')) return null
    return (
      <Action
        name={t.workers.remove}
        isDangerous
        question={<p>{t.workers.removeQuestion}</p>}
        act={() => call('DELETE /ojs/v1/admin/workers/{id}', { path })}
        done={t.workers.removed(id)}
      />
    )
  }
  return (
    <div className="row-actions">
      {directive === 'running' && may('POST /ojs/v1/admin/workers/{id}/quiet') && (
        <Action
          name={t.workers.quiet}
          question={<p>{t.workers.quietQuestion}</p>}
          act={() => call('POST /ojs/v1/admin/workers/{id}/quiet', { path, body: {} })}
          done={t.workers.quieted(id)}
        />
      )}
      {directive !== 'terminate' && may('POST /ojs/v1/admin/workers/{id}/terminate') && (
        <Action
          name={t.workers.terminate}
          isDangerous
          question={<p>{t.workers.terminateQuestion}</p>}
          act={() => call('POST /ojs/v1/admin/workers/{id}/terminate', { path, body: {} })}
          done={t.workers.terminated(id)}
        />
      )}
    </div>
  )
}

function JobsOf({ id, onClose }: { id: string; onClose: () => void }): ReactNode {
  const now = useNow()
  const worker = useApi('GET /ojs/v1/admin/workers/{id}', { path: { id } }, { every: 2_000 })
  return (
    <Dialog title={id} onClose={onClose}>
      <div className="dialog-body">
        <Loaded of={worker}>
          {({ jobs }) =>
            jobs.length === 0 ? (
              <p>{t.workers.idle}</p>
            ) : (
              <Table label={t.workers.jobs} heads={[t.jobs.type, t.jobs.queue, t.workers.runs]}>
                {jobs.map((job) => (
                  <tr key={job.id}>
                    <td>
                      <Link to="/jobs/$id" params={{ id: job.id }}>
                        {job.type}
                      </Link>
                    </td>
                    <td>{job.queue}</td>
                    <td>{job.started_at === undefined ? '–' : duration(runsMs(job, now))}</td>
                  </tr>
                ))}
              </Table>
            )
          }
        </Loaded>
      </div>
    </Dialog>
  )
}
