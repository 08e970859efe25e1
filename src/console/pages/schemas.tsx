/** The schemas of arguments: which there are, what they say, and where they are named. */
import { Link } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import { call } from '../api/client.ts'
import type { SchemaSummary } from '../api/openapi.ts'
import { useApi } from '../api/queries.ts'
import { useMay } from '../api/session.ts'
import { t } from '../text/text.ts'
import { Action } from '../ui/action.tsx'
import { Loaded } from '../ui/answer.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Empty } from '../ui/empty.tsx'
import { schemaLine } from '../ui/lines.ts'
import { Page } from '../ui/page.tsx'
import { PagedTable } from '../ui/paged-table.tsx'
import { usePages } from '../ui/pager.tsx'
import { Raw } from '../ui/raw.tsx'
import { Tree } from '../ui/tree.tsx'
import { When } from '../ui/when.tsx'

export function SchemasPage(): ReactNode {
  const pages = usePages(50)
  const schemas = useApi('GET /ojs/v1/schemas', { query: pages.query }, { every: 10_000 })
  const { data } = schemas
  return (
    <Page title={t.nav.schemas}>
      {data?.schemas.every(({ uri }) => isOfOjs(uri)) && (
        <Empty text={t.schemas.none} line={schemaLine()} />
      )}
      <PagedTable
        of={schemas}
        pages={pages}
        itemsOf={(answer) => answer.schemas}
        empty={null}
        label={t.nav.schemas}
        heads={[t.schemas.uri, t.schemas.type, t.schemas.version, t.job.created, t.queues.actions]}
        row={(schema) => <Row key={schema.uri} schema={schema} />}
      />
    </Page>
  )
}

/** Those of OJS's own documents are always there. */
function isOfOjs(uri: string): boolean {
  return uri.startsWith('https://openjobspec.org/')
}

function Row({ schema }: { schema: SchemaSummary }): ReactNode {
  const [isOpen, setOpen] = useState(false)
  const { uri, type, version, created_at: createdAt } = schema
  return (
    <tr>
      <td className="clip">
        <button type="button" className="link" data-row onClick={() => setOpen(true)}>
          <Raw text={uri} />
        </button>
        {isOpen && <SchemaDialog schema={schema} onClose={() => setOpen(false)} />}
      </td>
      <td>
        <Raw text={type} />
      </td>
      <td>
        <Raw text={String(version)} />
      </td>
      <td>
        <When at={createdAt} />
      </td>
      <td>
        <Remove uri={uri} />
      </td>
    </tr>
  )
}

function Remove({ uri }: { uri: string }): ReactNode {
  const may = useMay()
  if (isOfOjs(uri) || !may('DELETE /ojs/v1/schemas/{uri}')) return null
  return (
    <Action
      name={t.schemas.remove}
      isDangerous
      question={<p>{t.schemas.removeQuestion(uri)}</p>}
      act={() => call('DELETE /ojs/v1/schemas/{uri}', { path: { uri } })}
      done={t.schemas.removed}
    />
  )
}

interface DialogProps {
  schema: SchemaSummary
  onClose: () => void
}

function SchemaDialog({ schema: { uri, type }, onClose }: DialogProps): ReactNode {
  const schema = useApi('GET /ojs/v1/schemas/{uri}', { path: { uri } })
  return (
    <Dialog title={uri} onClose={onClose}>
      <div className="dialog-body">
        <Loaded of={schema}>
          {({ schema: { schema: content } }) => <Tree value={content} name={t.schemas.content} />}
        </Loaded>
        <h3>{t.schemas.used}</h3>
        <ul className="plain">
          <li>
            <Link to="/jobs" search={{ q: `type:${type}` }} onClick={onClose}>
              {t.schemas.jobs(type)}
            </Link>
          </li>
          <Entries uri={uri} />
        </ul>
      </div>
    </Dialog>
  )
}

/** Recurring jobs that name it, of the first hundred. */
function Entries({ uri }: { uri: string }): ReactNode {
  const may = useMay()
  const isEnabled = may('GET /ojs/v1/cron')
  const { data } = useApi('GET /ojs/v1/cron', { query: { limit: 100 } }, { isEnabled })
  const entries = data?.cron_jobs.filter((entry) => entry.schema === uri) ?? []
  return entries.map(({ name }) => (
    <li key={name}>
      {t.schemas.cron} <Link to="/cron">{name}</Link>
    </li>
  ))
}
