/** What happened to a job, oldest first. */
import type { ReactNode } from 'react'
import type { HistoryRecord, JobState } from '../../api/openapi.ts'
import { useApi } from '../../api/queries.ts'
import { instant } from '../../text/format.ts'
import { t } from '../../text/text.ts'
import { Loaded } from '../../ui/answer.tsx'
import { Card } from '../../ui/page.tsx'
import { Raw } from '../../ui/raw.tsx'
import { State } from '../../ui/state.tsx'
import { When } from '../../ui/when.tsx'

const MOST = 1_000
const ENDED: readonly JobState[] = ['completed', 'cancelled', 'discarded']

export function Timeline({ id, state }: { id: string; state: JobState }): ReactNode {
  const history = useApi(
    'GET /ojs/v1/jobs/{id}/history',
    { path: { id }, query: { limit: MOST } },
    { every: ENDED.includes(state) ? 10_000 : 2_000 },
  )
  return (
    <Card title={t.job.timeline}>
      <Loaded of={history}>
        {({ events, truncated }) => (
          <>
            {truncated && <p className="hint">{t.job.truncated}</p>}
            <ol className="timeline">
              {events.map((event) => (
                <Moment key={event.id} of={event} />
              ))}
            </ol>
          </>
        )}
      </Loaded>
    </Card>
  )
}

function Moment({ of }: { of: HistoryRecord }): ReactNode {
  const { timestamp, actor, data, event_type: type, metadata } = of
  const to = typeof data['to'] === 'string' ? data['to'] : undefined
  const reason = typeof data['reason'] === 'string' ? data['reason'] : undefined
  return (
    <li>
      {to === undefined ? <span>{type.replace(/^job\./, '')}</span> : <State of={to} />}
      <span className="faint">
        {instant(timestamp)} · <When at={timestamp} />
      </span>
      <span>
        {actor.id !== '' && (
          <>
            {t.job.actors[actor.type]} <Raw text={actor.id} />{' '}
          </>
        )}
        {reason !== undefined && <Raw text={reason.replaceAll('_', ' ')} />}
      </span>
      {metadata?.request_id !== undefined && (
        <code className="faint">
          <Raw text={metadata.request_id} />
        </code>
      )}
    </li>
  )
}
