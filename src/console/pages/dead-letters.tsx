/** Dead letters: how many of which error, type and queue, and the jobs themselves. */
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { Answer } from '../api/client.ts'
import { useApi } from '../api/queries.ts'
import { number } from '../text/format.ts'
import { t } from '../text/text.ts'
import { Loaded } from '../ui/answer.tsx'
import { Empty } from '../ui/empty.tsx'
import { Card, Page } from '../ui/page.tsx'
import { PagedTable } from '../ui/paged-table.tsx'
import { usePages } from '../ui/pager.tsx'
import { Raw } from '../ui/raw.tsx'
import { When } from '../ui/when.tsx'
import { BulkActions } from './jobs/bulk-actions.tsx'

const GROUPS = ['error_type', 'type', 'queue'] as const
type Group = (typeof GROUPS)[number]

interface Chosen {
  group: Group
  value: string
}

/** The group in the address, `?error_type=SmtpRefused`. */
export function groupIn(search: Record<string, unknown>): { [G in Group]?: string } {
  const group = GROUPS.find((each) => typeof search[each] === 'string')
  return group === undefined ? {} : { [group]: search[group] }
}

export function DeadLettersPage(): ReactNode {
  const stats = useApi('GET /ojs/v1/dead-letter/stats', {}, { every: 5_000 })
  const navigate = useNavigate()
  const search = useSearch({ from: '/dead-letters' })
  const group = GROUPS.find((each) => search[each] !== undefined)
  const value = group && search[group]
  const isNone = group === undefined || value === undefined || stats.data?.total === 0
  const chosen = isNone ? null : { group, value }
  const choose = (next: Chosen | null) =>
    void navigate({
      to: '/dead-letters',
      search: next === null ? {} : { [next.group]: next.value },
    })
  return (
    <Page
      title={t.nav.deadLetters}
      aside={
        stats.data && <span className="faint">{t.deadLetters.total(number(stats.data.total))}</span>
      }
    >
      <Loaded of={stats}>
        {(answer) =>
          answer.total > 0 && <Groups stats={answer} chosen={chosen} onChoose={choose} />
        }
      </Loaded>
      {/* Stays when the last one is gone: an action may still be telling what it did. */}
      <Letters key={`${chosen?.group} ${chosen?.value}`} chosen={chosen} />
    </Page>
  )
}

interface GroupsProps {
  stats: Answer<'GET /ojs/v1/dead-letter/stats'>
  chosen: Chosen | null
  onChoose: (chosen: Chosen | null) => void
}

function Groups({ stats, chosen, onChoose }: GroupsProps): ReactNode {
  const groups: [Group, string, Readonly<Record<string, number>>][] = [
    ['error_type', t.deadLetters.byError, stats.by_error_type],
    ['type', t.deadLetters.byType, stats.by_type],
    ['queue', t.deadLetters.byQueue, stats.by_queue],
  ]
  return (
    <div className="cards">
      {groups.map(([group, title, counts]) => (
        <Card key={group} title={title}>
          <ul className="bars">
            {mostOf(counts, chosen?.group === group ? chosen.value : undefined).map(
              ([value, count]) => (
                <li key={value}>
                  <button
                    type="button"
                    aria-pressed={chosen?.group === group && chosen.value === value}
                    onClick={() =>
                      onChoose(
                        chosen?.group === group && chosen.value === value ? null : { group, value },
                      )
                    }
                  >
                    <Raw text={value} />
                    <b>{number(count)}</b>
                  </button>
                  <meter aria-hidden="true" min={0} max={stats.total} value={count} />
                </li>
              ),
            )}
          </ul>
        </Card>
      ))}
    </div>
  )
}

/** The most frequent, and the one that is chosen, if only to be let go: its last job may be gone. */
function mostOf(counts: Readonly<Record<string, number>>, chosen?: string): [string, number][] {
  const all = Object.entries(counts).sort(([, a], [, b]) => b - a)
  const most = all.slice(0, 12)
  if (chosen === undefined || most.some(([value]) => value === chosen)) return most
  return [...most, [chosen, Object.hasOwn(counts, chosen) ? (counts[chosen] ?? 0) : 0]]
}

function Letters({ chosen }: { chosen: Chosen | null }): ReactNode {
  const pages = usePages(50)
  const filters: Record<string, string> = chosen === null ? {} : { [chosen.group]: chosen.value }
  const letters = useApi(
    'GET /ojs/v1/admin/dead-letter',
    { query: pages.query, filters },
    { every: 5_000 },
  )
  const ofState = { ...filters, state: 'discarded' }
  return (
    <>
      <BulkActions
        selected={NONE}
        filters={ofState}
        actions={RETRY_OR_DELETE}
        onDone={() => undefined}
      />
      <PagedTable
        of={letters}
        pages={pages}
        itemsOf={(answer) => answer.items}
        empty={<Empty text={chosen === null ? t.deadLetters.none : t.jobs.none} />}
        label={t.nav.deadLetters}
        heads={[t.jobs.type, t.jobs.queue, t.jobs.error, t.deadLetters.message, t.deadLetters.died]}
        row={({ id, type, queue, error, discarded_at: at }) => (
          <tr key={id}>
            <td>
              <Link to="/jobs/$id" params={{ id }} data-row>
                {type}
              </Link>
            </td>
            <td>{queue}</td>
            <td>
              <Raw text={error?.code ?? error?.type ?? '–'} />
            </td>
            <td className="clip">
              <Raw text={error?.message ?? ''} />
            </td>
            <td>
              <When at={at} />
            </td>
          </tr>
        )}
      />
    </>
  )
}

const RETRY_OR_DELETE = ['retry', 'delete'] as const
const NONE: ReadonlySet<string> = new Set()
