/** Who did what: the newest requests that steered something, and what was refused to a key. */
import { type ReactNode, useState } from 'react'
import type { AuditRecord } from '../api/openapi.ts'
import { useApi } from '../api/queries.ts'
import { useSession } from '../api/session.ts'
import { number } from '../text/format.ts'
import { t } from '../text/text.ts'
import { Loaded } from '../ui/answer.tsx'
import { Empty } from '../ui/empty.tsx'
import { pauseLine } from '../ui/lines.ts'
import { Page } from '../ui/page.tsx'
import { Raw } from '../ui/raw.tsx'
import { useSettled } from '../ui/settled.ts'
import { right, Table } from '../ui/table.tsx'
import { When } from '../ui/when.tsx'

const SIZE = 50

export function AuditPage(): ReactNode {
  const [key, setKey] = useState('')
  return (
    <Page title={t.nav.audit}>
      {useSession().needs_key && (
        <label className="filter">
          {t.audit.ofKey}
          <input value={key} spellCheck={false} onChange={(event) => setKey(event.target.value)} />
        </label>
      )}
      <Records keyName={useSettled(key.trim())} />
    </Page>
  )
}

function Records({ keyName }: { keyName: string }): ReactNode {
  // The cursors of the pages before this one: a list that grows at its front has no page numbers.
  const [cursors, setCursors] = useState<readonly string[]>([])
  const cursor = cursors.at(-1)
  const isFirst = cursor === undefined
  const query = { limit: SIZE, ...(keyName !== '' && { key: keyName }) }
  const records = useApi(
    'GET /ojs/v1/admin/audit',
    { query: isFirst || keyName !== '' ? query : { ...query, cursor } },
    isFirst ? { every: 5_000 } : {},
  )
  return (
    <Loaded of={records}>
      {({ items, pagination }) =>
        items.length === 0 ? (
          <Empty text={t.audit.none} line={pauseLine()} />
        ) : (
          <>
            <Table label={t.nav.audit} heads={HEADS}>
              {items.map((record) => (
                <Row key={record.id} record={record} />
              ))}
            </Table>
            <nav className="pager" aria-label={t.pager.label}>
              <button
                type="button"
                disabled={isFirst}
                onClick={() => setCursors(cursors.slice(0, -1))}
              >
                {t.pager.back}
              </button>
              <span>{t.audit.total(number(pagination.total))}</span>
              <button
                type="button"
                disabled={!pagination.has_more}
                onClick={() => setCursors([...cursors, pagination.next_cursor ?? ''])}
              >
                {t.pager.on}
              </button>
            </nav>
          </>
        )
      }
    </Loaded>
  )
}

const HEADS = [
  t.audit.when,
  t.audit.who,
  t.audit.what,
  t.audit.path,
  right(t.audit.status),
  t.errors.request,
]

function Row({ record }: { record: AuditRecord }): ReactNode {
  const { key, role, address, endpoint, path, status } = record
  const words: Readonly<Record<string, string>> = t.audit.actions
  return (
    <tr>
      <td>
        <When at={record.timestamp} />
      </td>
      <td>
        {key === undefined ? (
          <span className="faint">{address ?? '–'}</span>
        ) : (
          <span title={address}>
            {key} <span className="faint">{role}</span>
          </span>
        )}
      </td>
      <td>{words[endpoint] ?? <code>{endpoint.replace('/ojs/v1', '')}</code>}</td>
      <td className="clip" title={path}>
        <Raw text={path.replace('/ojs/v1', '')} />
      </td>
      <td className={status >= 400 ? 'number bad' : 'number'}>
        {status === 0 ? t.audit.left : status}
      </td>
      <td>
        <code>{record.request_id}</code>
      </td>
    </tr>
  )
}
