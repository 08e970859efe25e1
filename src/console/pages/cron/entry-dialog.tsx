/** One entry: what it does and when, its next times, its runs; change and delete. */
import { Link } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import { call } from '../../api/client.ts'
import type { CronJob } from '../../api/openapi.ts'
import { useApi } from '../../api/queries.ts'
import { useMay } from '../../api/session.ts'
import { instant } from '../../text/format.ts'
import { t } from '../../text/text.ts'
import { Action } from '../../ui/action.tsx'
import { Loaded } from '../../ui/answer.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { Fact } from '../../ui/fact.tsx'
import { Raw } from '../../ui/raw.tsx'
import { State } from '../../ui/state.tsx'
import { Tree } from '../../ui/tree.tsx'
import { EntryForm } from './entry-form.tsx'
import { NextTimes } from './next-times.tsx'
import { useWords } from './words.ts'

export function EntryDialog({
  entry,
  onClose,
}: {
  entry: CronJob
  onClose: () => void
}): ReactNode {
  const [isChanging, setChanging] = useState(false)
  if (isChanging) return <EntryForm entry={entry} onClose={onClose} />
  return (
    <Dialog title={entry.name} onClose={onClose}>
      <div className="dialog-body">
        <Facts entry={entry} />
        {entry.enabled && <NextTimes expression={entry.cron} timezone={entry.timezone} />}
        <Tree value={entry.args} name={t.job.args} />
        <Runs name={entry.name} />
      </div>
      <Foot name={entry.name} onChange={() => setChanging(true)} onClose={onClose} />
    </Dialog>
  )
}

function Facts({ entry }: { entry: CronJob }): ReactNode {
  const wordsOf = useWords()
  const { cron, timezone, type, description, overlap_policy: overlap } = entry
  const words = wordsOf(cron)
  return (
    <>
      {description !== undefined && (
        <p>
          <Raw text={description} />
        </p>
      )}
      <p>
        <code>{cron}</code> <span className="faint">{timezone}</span>
        {words !== '' && (
          <>
            <br />
            {words}
          </>
        )}
      </p>
      <dl className="facts">
        <Fact name={t.jobs.type}>{type}</Fact>
        <Fact name={t.cron.overlap}>{t.cron.overlaps[overlap]}</Fact>
      </dl>
    </>
  )
}

interface FootProps {
  name: string
  onChange: () => void
  onClose: () => void
}

function Foot({ name, onChange, onClose }: FootProps): ReactNode {
  const may = useMay()
  return (
    <footer className="dialog-foot">
      {may('DELETE /ojs/v1/cron/{name}') && (
        <Action
          name={t.cron.remove}
          isDangerous
          question={<p>{t.cron.removeQuestion(name)}</p>}
          act={() => call('DELETE /ojs/v1/cron/{name}', { path: { name } })}
          done={t.cron.removed(name)}
          onDone={onClose}
        />
      )}
      {may('PATCH /ojs/v1/cron/{name}') && (
        <button type="button" onClick={onChange}>
          {t.cron.change}
        </button>
      )}
      <button type="button" onClick={onClose}>
        {t.close}
      </button>
    </footer>
  )
}

function Runs({ name }: { name: string }): ReactNode {
  const query = { limit: 50 }
  const runs = useApi(
    'GET /ojs/v1/cron/{name}/history',
    { path: { name }, query },
    { every: 3_000 },
  )
  return (
    <section>
      <h3>{t.cron.history}</h3>
      <Loaded of={runs}>
        {({ executions }) =>
          executions.length === 0 ? (
            <p className="faint">{t.cron.noRuns}</p>
          ) : (
            <ul className="plain">
              {executions.map((run) => (
                <li key={`${run.scheduled_at} ${run.job_id ?? ''}`}>
                  {instant(run.scheduled_at)}{' '}
                  {run.job_id === undefined ? (
                    <span className="faint">{run.reason ?? t.cron.skipped}</span>
                  ) : (
                    <Link to="/jobs/$id" params={{ id: run.job_id }}>
                      <State of={run.state ?? 'pending'} />
                    </Link>
                  )}
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </section>
  )
}
