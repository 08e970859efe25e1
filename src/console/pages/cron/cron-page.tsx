/** Recurring jobs: when they run next, whether they do, and running one now. */
import { type ReactNode, useState } from 'react'
import { call } from '../../api/client.ts'
import type { CronJob } from '../../api/openapi.ts'
import { useApi } from '../../api/queries.ts'
import { useMay } from '../../api/session.ts'
import { inZone, number } from '../../text/format.ts'
import { t } from '../../text/text.ts'
import { Action } from '../../ui/action.tsx'
import { Empty } from '../../ui/empty.tsx'
import { cronLine } from '../../ui/lines.ts'
import { Page } from '../../ui/page.tsx'
import { PagedTable } from '../../ui/paged-table.tsx'
import { usePages } from '../../ui/pager.tsx'
import { State } from '../../ui/state.tsx'
import { right } from '../../ui/table.tsx'
import { When } from '../../ui/when.tsx'
import { EntryDialog } from './entry-dialog.tsx'
import { EntryForm } from './entry-form.tsx'
import { clocksOf, useWords } from './words.ts'

export function CronPage(): ReactNode {
  const may = useMay()
  const [isCreating, setCreating] = useState(false)
  const pages = usePages(50)
  const entries = useApi('GET /ojs/v1/cron', { query: pages.query }, { every: 3_000 })
  return (
    <Page
      title={t.nav.cron}
      actions={
        may('POST /ojs/v1/cron') && (
          <button type="button" className="primary" onClick={() => setCreating(true)}>
            {t.cron.create}
          </button>
        )
      }
    >
      {isCreating && <EntryForm onClose={() => setCreating(false)} />}
      <PagedTable
        of={entries}
        pages={pages}
        itemsOf={(answer) => answer.cron_jobs}
        empty={<Empty text={t.cron.none} line={cronLine()} />}
        label={t.nav.cron}
        heads={[
          t.cron.name,
          t.cron.state,
          t.cron.expression,
          t.jobs.type,
          t.cron.next,
          t.cron.last,
          right(t.cron.runs),
          t.queues.actions,
        ]}
        row={(entry) => <Row key={entry.name} entry={entry} />}
      />
    </Page>
  )
}

function Row({ entry }: { entry: CronJob }): ReactNode {
  const { name, cron, timezone, type, enabled, next_run_at: next, last_run_at: last } = entry
  const [isOpen, setOpen] = useState(false)
  const wordsOf = useWords()
  return (
    <tr>
      <td>
        <button type="button" className="link" data-row onClick={() => setOpen(true)}>
          {name}
        </button>
        {isOpen && <EntryDialog entry={entry} onClose={() => setOpen(false)} />}
      </td>
      <td>
        <State of={enabled ? 'enabled' : 'disabled'} />
      </td>
      <td>
        <code>{cron}</code> <span className="faint">{timezone}</span>
        <div className="faint">{wordsOf(cron)}</div>
      </td>
      <td>{type}</td>
      <td>
        <When at={next} />
        {next && <div className="faint">{inZone(next, timezone, clocksOf(cron))}</div>}
      </td>
      <td>
        <When at={last} />
      </td>
      <td className="number">{number(entry.run_count)}</td>
      <td>
        <CronActions name={name} isEnabled={enabled} />
      </td>
    </tr>
  )
}

function CronActions({ name, isEnabled }: { name: string; isEnabled: boolean }): ReactNode {
  const may = useMay()
  const path = { name }
  return (
    <div className="row-actions">
      {may('POST /ojs/v1/cron/{name}/trigger') && (
        <Action
          name={t.cron.run}
          question={<p>{t.cron.runQuestion(name)}</p>}
          act={() => call('POST /ojs/v1/cron/{name}/trigger', { path, body: {} })}
          done={t.cron.ran(name)}
        />
      )}
      {isEnabled && may('POST /ojs/v1/cron/{name}/pause') && (
        <Action
          name={t.cron.pause}
          act={() => call('POST /ojs/v1/cron/{name}/pause', { path, body: {} })}
          done={t.cron.paused(name)}
        />
      )}
      {!isEnabled && may('POST /ojs/v1/cron/{name}/resume') && (
        <Action
          name={t.cron.resume}
          act={() => call('POST /ojs/v1/cron/{name}/resume', { path, body: {} })}
          done={t.cron.resumed(name)}
        />
      )}
    </div>
  )
}
