/** An action on many jobs: first how many it would be, then a word of consent, then how far it is. */
import { useMutation } from '@tanstack/react-query'
import { type ReactNode, useEffect } from 'react'
import { call } from '../../api/client.ts'
import type { Operation } from '../../api/openapi.ts'
import { askAgain, useApi } from '../../api/queries.ts'
import type { Filters } from '../../search/query.ts'
import { number } from '../../text/format.ts'
import { t } from '../../text/text.ts'
import { Loaded, Trouble } from '../../ui/answer.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { Raw } from '../../ui/raw.tsx'
import { UnderWay } from '../../ui/under-way.tsx'
import type { ActionName } from './touched.ts'

export interface BulkWhat {
  action: ActionName
  jobs: { job_ids: string[] } | { filter: Filters }
}

interface BulkDialogProps {
  what: BulkWhat
  onClose: (isDone: boolean) => void
}

export function BulkDialog({ what, onClose }: BulkDialogProps): ReactNode {
  const { action, jobs } = what
  const send = (more: object) =>
    call(`POST /ojs/v1/admin/jobs/bulk/${action}`, { body: { ...jobs, ...more } })
  const counting = useMutation({ mutationFn: () => send({ dry_run: true }) })
  const acting = useMutation({
    mutationFn: () => send({ confirm: true, ...('filter' in jobs && { async: true }) }),
    onSuccess: askAgain,
  })
  const { mutate: count } = counting
  useEffect(() => count(), [count])
  const answer: Answered | undefined = acting.data
  const isDone = answer !== undefined
  return (
    <Dialog title={t.bulk.title[action]} onClose={() => onClose(isDone)}>
      <div className="dialog-body">
        {'filter' in jobs && <Sought filters={jobs.filter} />}
        {answer !== undefined && <Outcome answer={answer} />}
        {answer === undefined && !counting.isError && (
          <Matched action={action} counted={counting.data} />
        )}
      </div>
      {(counting.isError || acting.isError) && <Trouble error={counting.error ?? acting.error} />}
      <UnderWay of={acting} />
      <footer className="dialog-foot">
        <button type="button" onClick={() => onClose(isDone)}>
          {isDone ? t.close : t.back}
        </button>
        {!isDone && (
          <button
            type="button"
            className={action === 'delete' ? 'danger' : 'primary'}
            disabled={matchedIn(counting.data) === 0 || acting.isPending}
            onClick={() => acting.mutate()}
          >
            {t.bulk.go[action](number(matchedIn(counting.data)))}
          </button>
        )}
      </footer>
    </Dialog>
  )
}

/** An operation has an id; what was done at once has not. */
type Answered = object | undefined

interface Dry {
  matched: number
  matched_is_lower_bound?: true
  states: readonly (keyof typeof t.states)[]
  sample: readonly string[]
}

function isDry(answer: Answered): answer is Dry {
  return answer !== undefined && 'sample' in answer
}

function matchedIn(answer: Answered): number {
  return isDry(answer) ? answer.matched : 0
}

/** What the jobs have in common: an action on more than was meant cannot be taken back. */
function Sought({ filters }: { filters: Filters }): ReactNode {
  const terms = Object.entries(filters).map(([name, value]) => `${name}: ${String(value)}`)
  if (terms.length === 0) return <p>{t.bulk.noFilter}</p>
  return (
    <p>
      {t.bulk.filter}: <Raw text={terms.join(', ')} />
    </p>
  )
}

interface MatchedProps {
  action: ActionName
  counted: Answered
}

function Matched({ action, counted }: MatchedProps): ReactNode {
  if (!isDry(counted)) return <p role="status">{t.bulk.counting}</p>
  const { matched, matched_is_lower_bound: isMore, states } = counted
  return (
    <>
      <p role="status">{t.bulk.matched(number(matched), isMore === true, action === 'delete')}</p>
      <p className="faint">{t.bulk.states(states.map((state) => t.states[state]).join(', '))}</p>
    </>
  )
}

function Outcome({ answer }: { answer: object }): ReactNode {
  if ('id' in answer && typeof answer.id === 'string') return <Progress id={answer.id} />
  return <Result of={answer as Ended} />
}

/** An operation goes on in the gateway, whether or not somebody looks. */
function Progress({ id }: { id: string }): ReactNode {
  const stopping = useMutation({
    mutationFn: () => call('POST /ojs/v1/admin/operations/{id}/stop', { path: { id }, body: {} }),
  })
  const operation = useApi('GET /ojs/v1/admin/operations/{id}', { path: { id } }, { every: 500 })
  return (
    <Loaded of={operation}>
      {(data: Operation) => (
        <>
          <progress
            aria-label={t.bulk.progress}
            max={Math.max(1, data.expected)}
            value={data.state === 'running' ? data.matched : Math.max(1, data.expected)}
          />
          {data.state === 'running' ? (
            <p>
              {t.bulk.running(number(data.matched), number(data.expected))}{' '}
              <button
                type="button"
                className="small"
                disabled={stopping.isPending}
                onClick={() => stopping.mutate()}
              >
                {t.bulk.stop}
              </button>
            </p>
          ) : (
            <Result of={data} />
          )}
          {stopping.isError && <Trouble error={stopping.error} />}
        </>
      )}
    </Loaded>
  )
}

interface Ended {
  succeeded: number
  failed: number
  errors: readonly { job_id: string; error: string; reason: string }[]
}

function Result({ of }: { of: Ended }): ReactNode {
  useEffect(askAgain, [])
  return (
    <>
      <p role="status">{t.bulk.done(number(of.succeeded), number(of.failed))}</p>
      {of.errors.length > 0 && (
        <ul className="plain">
          {of.errors.slice(0, 10).map((each) => (
            <li key={each.job_id}>
              <code>{each.job_id}</code> {each.error}
            </li>
          ))}
        </ul>
      )}
    </>
  )
}
