/** The rows of the list: only those in view exist, however many there are. */
import { useVirtualizer } from '@tanstack/react-virtual'
import { type KeyboardEvent, memo, type ReactNode, useEffect, useRef } from 'react'
import type { JobItem } from '../../api/openapi.ts'
import { t } from '../../text/text.ts'
import { Raw } from '../../ui/raw.tsx'
import { When } from '../../ui/when.tsx'
import { JobCells } from './job-cells.tsx'

const ROW_PX = 44
/** Further rows are asked for this many rows before the end. */
const AHEAD = 30

interface JobListProps {
  jobs: readonly JobItem[]
  fresh: ReadonlyMap<string, JobItem>
  selected: ReadonlySet<string>
  onToggle: (id: string) => void
  onToggleAll: () => void
  onView: (ids: readonly string[]) => void
  onEnd: () => void
}

export function JobList(props: JobListProps): ReactNode {
  const { jobs, fresh, selected, onToggle, onToggleAll, onView, onEnd } = props
  const box = useRef<HTMLElement>(null)
  const rows = useVirtualizer({
    count: jobs.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    overscan: 8,
    getItemKey: (place) => jobs[place]?.id ?? place,
  })
  const items = rows.getVirtualItems()
  const first = items[0]?.index ?? 0
  const last = items.at(-1)?.index ?? -1
  const ids = jobs.slice(first, last + 1).map(({ id }) => id)
  const view = ids.join()
  useEffect(() => onView(view === '' ? [] : view.split(',')), [view, onView])
  useEffect(() => {
    if (last >= jobs.length - AHEAD) onEnd()
  }, [last, jobs.length, onEnd])
  const top = items[0]?.start ?? 0
  const bottom = rows.getTotalSize() - (items.at(-1)?.end ?? 0)
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
    <section className="table-wrap job-list" ref={box} tabIndex={0} aria-label={t.nav.jobs}>
      <table aria-rowcount={jobs.length + 1}>
        <thead>
          <tr>
            <th scope="col" className="narrow">
              <input
                type="checkbox"
                aria-label={t.jobs.selectAll}
                checked={jobs.length > 0 && jobs.every(({ id }) => selected.has(id))}
                onChange={onToggleAll}
              />
            </th>
            {[
              t.jobs.type,
              t.jobs.state,
              t.jobs.queue,
              t.jobs.attempt,
              t.jobs.created,
              t.jobs.error,
            ].map((head) => (
              <th key={head} scope="col">
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          <Gap height={top} />
          {items.map(({ index }) => {
            const job = jobs[index]
            return (
              job && (
                <Row
                  key={job.id}
                  job={fresh.get(job.id) ?? job}
                  place={index}
                  isSelected={selected.has(job.id)}
                  onToggle={onToggle}
                />
              )
            )
          })}
          <Gap height={bottom} />
        </tbody>
      </table>
    </section>
  )
}

function Gap({ height }: { height: number }): ReactNode {
  if (height <= 0) return null
  return (
    <tr className="gap-row">
      <td colSpan={7} className="gap" style={{ height }} />
    </tr>
  )
}

interface RowProps {
  job: JobItem
  place: number
  isSelected: boolean
  onToggle: (id: string) => void
}

/** Drawn anew only if something of it has changed: the list is, at every step of the scroll bar. */
const Row = memo(function Row({ job, place, isSelected, onToggle }: RowProps): ReactNode {
  const { id, attempt, max_attempts: max, created_at: at, error } = job
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'x') onToggle(id)
  }
  return (
    <tr className={isSelected ? 'selected' : ''} aria-rowindex={place + 2}>
      <td className="narrow">
        <input
          type="checkbox"
          aria-label={t.jobs.select(id)}
          checked={isSelected}
          onChange={() => onToggle(id)}
        />
      </td>
      <JobCells job={job} onKeyDown={onKeyDown} />
      <td>
        {attempt}/{max}
      </td>
      <td>
        <When at={at} />
      </td>
      <td className="clip">
        <Raw text={error?.code ?? error?.type ?? error?.message ?? ''} />
      </td>
    </tr>
  )
})
