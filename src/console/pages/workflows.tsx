/** All workflows, the newest first. */
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useApi } from '../api/queries.ts'
import { number } from '../text/format.ts'
import { t } from '../text/text.ts'
import { Empty } from '../ui/empty.tsx'
import { workflowLine } from '../ui/lines.ts'
import { Page } from '../ui/page.tsx'
import { PagedTable } from '../ui/paged-table.tsx'
import { usePages } from '../ui/pager.tsx'
import { Raw } from '../ui/raw.tsx'
import { State } from '../ui/state.tsx'
import { right } from '../ui/table.tsx'
import { When } from '../ui/when.tsx'

export function WorkflowsPage(): ReactNode {
  const pages = usePages(50)
  const workflows = useApi('GET /ojs/v1/workflows', { query: pages.query }, { every: 3_000 })
  return (
    <Page title={t.nav.workflows}>
      <PagedTable
        of={workflows}
        pages={pages}
        itemsOf={(answer) => answer.workflows}
        empty={<Empty text={t.workflows.none} line={workflowLine()} />}
        label={t.nav.workflows}
        heads={[
          t.workflows.name,
          t.workflows.state,
          t.workflows.type,
          right(t.workflows.steps),
          t.workflows.created,
          t.workflows.ended,
        ]}
        row={(each) => (
          <tr key={each.id}>
            <td>
              <Link to="/workflows/$id" params={{ id: each.id }} data-row>
                <Raw text={each.name ?? each.id} />
              </Link>
            </td>
            <td>
              <State of={each.state} />
            </td>
            <td>{each.type}</td>
            <td className="number">
              {number(each.steps_completed)}/{number(each.steps_total)}
            </td>
            <td>
              <When at={each.created_at} />
            </td>
            <td>
              <When at={each.completed_at ?? each.cancelled_at} />
            </td>
          </tr>
        )}
      />
    </Page>
  )
}
