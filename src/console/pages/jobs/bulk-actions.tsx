/** What can be done with the selected jobs, or with all that match. */
import { type ReactNode, useState } from 'react'
import type { Endpoint } from '../../api/client.ts'
import { useMay } from '../../api/session.ts'
import type { Filters } from '../../search/query.ts'
import { number } from '../../text/format.ts'
import { t } from '../../text/text.ts'
import { BulkDialog, type BulkWhat } from './bulk-dialog.tsx'
import { ExportDialog } from './export/export-dialog.tsx'
import { type ActionName, canTouch } from './touched.ts'

const ACTIONS: readonly ActionName[] = ['retry', 'cancel', 'delete']

interface BulkActionsProps {
  selected: ReadonlySet<string>
  filters: Filters
  /** Why nothing can be done with all that match: the filters are not what is written in the search box. */
  unclear?: string | undefined
  onDone: () => void
  /** Those that make sense; default: all. */
  actions?: readonly ActionName[]
}

/** More than a thousand jobs cannot be named one by one: then it is all that match, or fewer. */
const MOST_NAMED = 1_000

export function BulkActions(props: BulkActionsProps): ReactNode {
  const { selected, filters, unclear, onDone, actions = ACTIONS } = props
  const may = useMay()
  const [what, setWhat] = useState<BulkWhat | null>(null)
  const [isExporting, setExporting] = useState(false)
  const isNamed = selected.size > 0
  const isTooMany = selected.size > MOST_NAMED
  const isOff = isTooMany || (unclear !== undefined && !isNamed)
  return (
    <fieldset className="bulk">
      <legend className="hidden">{t.bulk.label}</legend>
      <span className="faint">
        {isTooMany
          ? t.bulk.tooMany(number(MOST_NAMED))
          : isNamed
            ? t.bulk.selected(number(selected.size))
            : (unclear ?? t.bulk.all)}
      </span>
      {actions.map((action) => {
        const endpoint: Endpoint = `POST /ojs/v1/admin/jobs/bulk/${action}`
        return (
          may(endpoint) &&
          (isNamed || mayTouch(action, filters)) && (
            <button
              key={action}
              type="button"
              className={action === 'delete' ? 'small danger' : 'small'}
              disabled={isOff}
              onClick={() =>
                setWhat({
                  action,
                  jobs: isNamed ? { job_ids: [...selected] } : { filter: filters },
                })
              }
            >
              {t.bulk[action]}
            </button>
          )
        )
      })}
      <button type="button" className="small" disabled={isOff} onClick={() => setExporting(true)}>
        {t.export.open}
      </button>
      {isExporting && (
        <ExportDialog ids={[...selected]} filters={filters} onClose={() => setExporting(false)} />
      )}
      {what && (
        <BulkDialog
          what={what}
          onClose={(isDone) => {
            setWhat(null)
            if (isDone) onDone()
          }}
        />
      )}
    </fieldset>
  )
}

/** A search for states that the action cannot touch would be refused. */
function mayTouch(action: ActionName, { state }: Filters): boolean {
  if (state === undefined) return true
  const states = typeof state === 'string' ? state.split(',') : state
  return states.some((each) => canTouch(action, each))
}
