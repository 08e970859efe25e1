/** Jobs that failed, grouped by their errors: which error is new, how often it comes, and what to do. */
import { Link } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import type { FailureGroup } from '../api/openapi.ts'
import { useApi } from '../api/queries.ts'
import { KEYS, term } from '../search/query.ts'
import { inZone, number, OWN_ZONE } from '../text/format.ts'
import { t } from '../text/text.ts'
import { Loaded } from '../ui/answer.tsx'
import { Choices } from '../ui/choices.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Empty } from '../ui/empty.tsx'
import { Page } from '../ui/page.tsx'
import { Pattern } from '../ui/pattern.tsx'
import { Raw } from '../ui/raw.tsx'
import { right, Table } from '../ui/table.tsx'
import { Trend } from '../ui/trend.tsx'
import { When } from '../ui/when.tsx'
import { BulkActions } from './jobs/bulk-actions.tsx'

type Sort = keyof typeof t.failures.sorts

export function FailuresPage(): ReactNode {
  const failures = useApi('GET /ojs/v1/admin/failures', {}, { every: 10_000 })
  const [sort, setSort] = useState<Sort>('count')
  // Not in its row: that goes when the last of its jobs is retried, and the dialog has to say so.
  const [opened, setOpened] = useState<FailureGroup>()
  return (
    <Page title={t.nav.failures}>
      <Choices label={t.failures.sort} of={t.failures.sorts} chosen={sort} onChoose={setSort} />
      <Loaded of={failures}>
        {({ groups, searched, search_is_partial: isPartial }) =>
          groups.length === 0 ? (
            <Empty text={t.failures.none} />
          ) : (
            <>
              {isPartial && <p className="hint">{t.failures.partial(number(searched))}</p>}
              <Groups groups={sorted(groups, sort)} onOpen={setOpened} />
            </>
          )
        }
      </Loaded>
      {opened && <GroupDialog group={opened} onClose={() => setOpened(undefined)} />}
    </Page>
  )
}

function sorted(groups: readonly FailureGroup[], by: Sort): FailureGroup[] {
  if (by === 'count') return [...groups]
  const at = by === 'first' ? 'first_at' : 'last_at'
  return groups.toSorted((a, b) => Date.parse(b[at]) - Date.parse(a[at]))
}

interface GroupsProps {
  groups: readonly FailureGroup[]
  onOpen: (group: FailureGroup) => void
}

function Groups({ groups, onOpen }: GroupsProps): ReactNode {
  return (
    <Table
      label={t.nav.failures}
      heads={[
        t.failures.error,
        right(t.failures.count),
        t.failures.trend,
        t.failures.types,
        t.failures.first,
        t.failures.last,
      ]}
    >
      {groups.map((group) => (
        <Row
          key={JSON.stringify([group.code ?? group.type, group.pattern])}
          group={group}
          onOpen={() => onOpen(group)}
        />
      ))}
    </Table>
  )
}

function nameOf({ code, type }: FailureGroup): string {
  return code ?? type ?? '–'
}

function Row({ group, onOpen }: { group: FailureGroup; onOpen: () => void }): ReactNode {
  const types = Object.keys(group.by_type)
  return (
    <tr>
      <td className="error-cell">
        <button type="button" className="link" data-row onClick={onOpen}>
          <Raw text={nameOf(group)} />
        </button>
        <div className="faint">
          <Pattern text={group.pattern || t.failures.noMessage} />
        </div>
      </td>
      <td className="number">{number(group.count)}</td>
      <td>
        <Trend counts={group.trend} label={t.failures.trendOf(group.trend.join(', '))} />
      </td>
      <td>
        {types.slice(0, 2).join(', ')}
        {types.length > 2 && <span className="faint"> {t.more(types.length - 2)}</span>}
      </td>
      <td>
        <When at={group.first_at} />
        <div className="faint">{inZone(group.first_at, OWN_ZONE)}</div>
      </td>
      <td>
        <When at={group.last_at} />
        <div className="faint">{inZone(group.last_at, OWN_ZONE)}</div>
      </td>
    </tr>
  )
}

interface GroupDialogProps {
  /** As it was when it was chosen, while the list behind it goes on. */
  group: FailureGroup
  onClose: () => void
}

function GroupDialog({ group: shown, onClose }: GroupDialogProps): ReactNode {
  return (
    <Dialog title={nameOf(shown)} onClose={onClose}>
      <div className="dialog-body">
        <BulkActions selected={NONE} filters={shown.filter} onDone={onClose} />
        <p className="faint">{t.failures.example}</p>
        <p className="message">
          <Raw text={shown.message || t.failures.noMessage} />
        </p>
        <Counts name={t.failures.types} counts={shown.by_type} />
        <Counts name={t.failures.queues} counts={shown.by_queue} />
        <p>
          <Link to="/jobs" search={{ q: searchOf(shown) }}>
            {t.failures.jobs}
          </Link>
          {' · '}
          <Link to="/jobs/$id" params={{ id: shown.job_id }}>
            {t.failures.newest}
          </Link>
        </p>
      </div>
    </Dialog>
  )
}

const NONE: ReadonlySet<string> = new Set()

interface CountsProps {
  name: string
  counts: Readonly<Record<string, number>>
}

function Counts({ name, counts }: CountsProps): ReactNode {
  const most = Object.entries(counts).sort(([, a], [, b]) => b - a)
  return (
    <section>
      <h3>{name}</h3>
      <ul className="plain">
        {most.slice(0, 10).map(([each, count]) => (
          <li key={each}>
            <Raw text={each} /> <b>{number(count)}</b>
          </li>
        ))}
      </ul>
    </section>
  )
}

/** What a filter is called in the search box. */
const NAMES = new Map(Object.entries(KEYS).map(([key, filter]) => [filter, key]))

function searchOf({ filter }: FailureGroup): string {
  const terms = Object.entries(filter).flatMap(([name, value]) => {
    const values = name === 'state' ? String(value).split(',') : [value].flat()
    return values.map((each) => term(NAMES.get(name) ?? name, each))
  })
  return terms.join(' ')
}
