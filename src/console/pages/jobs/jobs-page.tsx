/** All jobs: search, read, select, act. */
import { useNavigate, useSearch } from '@tanstack/react-router'
import { type ReactNode, useCallback, useMemo, useState } from 'react'
import type { Pagination } from '../../api/openapi.ts'
import { useApi } from '../../api/queries.ts'
import { useMay } from '../../api/session.ts'
import { type Filters, filtersOf } from '../../search/query.ts'
import { number } from '../../text/format.ts'
import { t } from '../../text/text.ts'
import { Trouble } from '../../ui/answer.tsx'
import { Empty } from '../../ui/empty.tsx'
import { pushLine } from '../../ui/lines.ts'
import { Page } from '../../ui/page.tsx'
import { JOB_STATES } from '../../ui/state.tsx'
import { BulkActions } from './bulk-actions.tsx'
import { JobList } from './job-list.tsx'
import { type LiveJobs, useLiveJobs } from './live-jobs.ts'
import { SearchBox } from './search-box.tsx'
import { useSelection } from './selection.ts'

export function JobsPage(): ReactNode {
  const { q = '' } = useSearch({ from: '/jobs' })
  const navigate = useNavigate()
  const { filters, unknown } = useMemo(() => filtersOf(q), [q])
  const [inView, setInView] = useState<readonly string[]>([])
  const live = useLiveJobs(filters, inView)
  const known = useKnown(live)
  const [isEdited, setEdited] = useState(false)
  const unclear = unknown.length > 0 ? t.bulk.unclear : isEdited ? t.bulk.edited : undefined
  return (
    <Page
      title={t.nav.jobs}
      aside={live.total && <Total of={live.total} shown={live.jobs.length} />}
    >
      <SearchBox
        text={q}
        known={known}
        onEdited={setEdited}
        onSearch={(text) => void navigate({ to: '/jobs', search: text === '' ? {} : { q: text } })}
      />
      {unknown.length > 0 && (
        <p className="hint" role="status">
          {t.jobs.unknown(unknown.join(' '))}
        </p>
      )}
      {/* Another search is another list, with its own selection. */}
      <Found
        key={q}
        live={live}
        filters={filters}
        unclear={unclear}
        onView={setInView}
        isSearch={q !== ''}
      />
    </Page>
  )
}

interface FoundProps {
  live: LiveJobs
  filters: Filters
  unclear: string | undefined
  isSearch: boolean
  onView: (ids: readonly string[]) => void
}

function Found({ live, filters, unclear, isSearch, onView }: FoundProps): ReactNode {
  const [selected, setSelected] = useSelection()
  const { jobs } = live
  const toggle = useCallback(
    (id: string) => {
      setSelected((before) => {
        const next = new Set(before)
        if (!next.delete(id)) next.add(id)
        return next
      })
    },
    [setSelected],
  )
  const toggleAll = () => {
    const isWhole = jobs.every(({ id }) => selected.has(id))
    setSelected(new Set(isWhole ? [] : jobs.map(({ id }) => id)))
  }
  if (live.error !== null && live.error !== undefined) return <Trouble error={live.error} />
  if (live.isLoading) return <div className="loading">{t.loading}</div>
  return (
    <>
      <div className="list-tools">
        <BulkActions
          selected={selected}
          filters={filters}
          unclear={unclear}
          onDone={() => setSelected(new Set())}
        />
        {live.hasNews && (
          <button type="button" className="primary small" onClick={live.showNews}>
            {t.jobs.news}
          </button>
        )}
      </div>
      {jobs.length === 0 ? (
        <Empty
          text={isSearch ? t.jobs.none : t.jobs.empty}
          {...(!isSearch && { line: pushLine() })}
        />
      ) : (
        <JobList
          jobs={jobs}
          fresh={live.fresh}
          selected={selected}
          onToggle={toggle}
          onToggleAll={toggleAll}
          onView={onView}
          onEnd={live.more}
        />
      )}
    </>
  )
}

/** `shown`: so many rows are there, of a list that nobody has counted to its end. */
function Total({ of, shown }: { of: Pagination; shown: number }): ReactNode {
  const isMore = of.total_is_lower_bound || of.search_is_partial
  return (
    <span className="faint">
      {isMore ? t.jobs.atLeast(number(Math.max(of.total, shown))) : t.jobs.total(number(of.total))}
    </span>
  )
}

/** Completions are few. */
const MOST_LOOKED_AT = 500

/** What the search box may offer: states, the queues there are, and what the first rows show. */
function useKnown({ jobs }: LiveJobs): Record<string, readonly string[]> {
  const may = useMay()
  const isEnabled = may('GET /ojs/v1/admin/queues')
  const queues = useApi('GET /ojs/v1/admin/queues', { query: { limit: 100 } }, { isEnabled })
  return useMemo(() => {
    const some = jobs.slice(0, MOST_LOOKED_AT)
    const seen = (values: (string | undefined)[]) => [
      ...new Set(values.filter((value) => value !== undefined)),
    ]
    return {
      state: JOB_STATES,
      held: ['true', 'false'],
      queue: (queues.data?.items ?? []).map(({ name }) => name),
      type: seen(some.map(({ type }) => type)),
      error: seen(some.map(({ error }) => error?.code)),
      'error-type': seen(some.map(({ error }) => error?.type)),
      tag: seen(some.flatMap(({ tags }) => tags)),
    }
  }, [jobs, queues.data])
}
