/** What happens, as it happens. */
import { Link } from '@tanstack/react-router'
import { type ReactNode, useEffect, useState } from 'react'
import { urlOf } from '../api/client.ts'
import { useMay, useSession } from '../api/session.ts'
import { follow } from '../api/stream.ts'
import { clock } from '../text/format.ts'
import { t } from '../text/text.ts'
import { Empty } from '../ui/empty.tsx'
import { pushLine } from '../ui/lines.ts'
import { Page } from '../ui/page.tsx'
import { Table } from '../ui/table.tsx'

/** As many lines as one can read back; further ones push the oldest out. */
const KEPT = 300

interface Shown {
  id: string
  event: string
  timestamp: string
  job_id?: string
  type?: string
  queue?: string
}

const GROUPS = [
  '',
  'job.*',
  'job.failed',
  'dead_letter.*',
  'queue.*',
  'cron.*',
  'workflow.*',
] as const

export function EventsPage(): ReactNode {
  const queues = useOwnQueues()
  const [types, setTypes] = useState('')
  const [isHeld, setHeld] = useState(false)
  const { events, isConnected } = useTail(types, queues, isHeld || queues === null)
  if (queues === null) {
    return (
      <Page title={t.nav.events}>
        <p>{t.events.notAllowed}</p>
      </Page>
    )
  }
  return (
    <Page
      title={t.nav.events}
      aside={
        <span className={isConnected ? 'state green' : 'state amber'}>
          {isHeld ? t.events.held : isConnected ? t.events.live : t.events.connecting}
        </span>
      }
      actions={
        <>
          <select
            aria-label={t.events.types}
            value={types}
            onChange={(event) => setTypes(event.target.value)}
          >
            {GROUPS.map((group) => (
              <option key={group} value={group}>
                {group === '' ? t.events.all : group}
              </option>
            ))}
          </select>
          <button type="button" aria-pressed={isHeld} onClick={() => setHeld(!isHeld)}>
            {isHeld ? t.events.goOn : t.events.hold}
          </button>
        </>
      }
    >
      {events.length === 0 ? (
        <Empty text={t.events.none} line={pushLine()} />
      ) : (
        <Table
          label={t.nav.events}
          heads={[t.events.time, t.events.event, t.jobs.type, t.jobs.queue, t.job.title]}
        >
          {events.map((event) => (
            <Row key={event.id} event={event} />
          ))}
        </Table>
      )}
    </Page>
  )
}

/** The queues whose events the caller may follow, with commas; empty: all. Null: they may follow none. */
function useOwnQueues(): string | null {
  const may = useMay()
  const { queues = [] } = useSession()
  // The gateway wants each of them named.
  const areNames = queues.every((name) => !name.endsWith('*'))
  return may('GET /ojs/v1/events/stream') && areNames ? queues.join() : null
}

function Row({ event }: { event: Shown }): ReactNode {
  return (
    <tr>
      <td className="number">{clock(event.timestamp)}</td>
      <td>
        <code>{event.event}</code>
      </td>
      <td>{event.type ?? ''}</td>
      <td>{event.queue ?? ''}</td>
      <td>
        {event.job_id !== undefined && (
          <Link to="/jobs/$id" params={{ id: event.job_id }} data-row>
            {event.job_id}
          </Link>
        )}
      </td>
    </tr>
  )
}

/** A stream is open only while somebody looks: a browser has six connections for all tabs together. */
function useTail(
  types: string,
  queue: string | null,
  isHeld: boolean,
): { events: readonly Shown[]; isConnected: boolean } {
  const [events, setEvents] = useState<readonly Shown[]>([])
  const [isConnected, setConnected] = useState(false)
  const isVisible = useVisible()
  useEffect(() => {
    if (isHeld || !isVisible) return undefined
    const url = urlOf<'GET /ojs/v1/events/stream'>('/ojs/v1/events/stream', {
      filters: { types, ...(queue !== null && { queue }) },
    })
    let begun: Shown[] = []
    // Many events a second are one change of the page.
    const flush = setInterval(() => {
      if (begun.length === 0) return
      const fresh = begun.toReversed()
      begun = []
      setEvents((before) => [...fresh, ...before].slice(0, KEPT))
    }, 250)
    const end = follow(url, {
      onConnected: setConnected,
      onEvent: ({ id, data }) => {
        // Without an id it is about the stream itself.
        if (id !== undefined) begun = [...begun.slice(1 - KEPT), { ...JSON.parse(data), id }]
      },
    })
    return () => {
      clearInterval(flush)
      end()
      setConnected(false)
    }
  }, [types, queue, isHeld, isVisible])
  // biome-ignore lint/correctness/useExhaustiveDependencies: other types are another tail
  useEffect(() => setEvents([]), [types])
  return { events, isConnected }
}

function useVisible(): boolean {
  const [isVisible, setVisible] = useState(!document.hidden)
  useEffect(() => {
    const onChange = () => setVisible(!document.hidden)
    document.addEventListener('visibilitychange', onChange)
    return () => document.removeEventListener('visibilitychange', onChange)
  }, [])
  return isVisible
}
