/** The gateway itself: its health, its settings, operations that run, maintenance. */
import type { ReactNode } from 'react'
import { call } from '../api/client.ts'
import { useApi } from '../api/queries.ts'
import { useMay, useSession } from '../api/session.ts'
import { duration, number } from '../text/format.ts'
import { t } from '../text/text.ts'
import { Action } from '../ui/action.tsx'
import { Loaded } from '../ui/answer.tsx'
import { Fact } from '../ui/fact.tsx'
import { Card, Page } from '../ui/page.tsx'
import { State } from '../ui/state.tsx'
import { Table } from '../ui/table.tsx'
import { When } from '../ui/when.tsx'
import { LedgerCard } from './ledger-card.tsx'

export function SystemPage(): ReactNode {
  const may = useMay()
  const { version } = useSession()
  return (
    <Page
      title={t.nav.system}
      aside={<span className="faint">{version}</span>}
      actions={<Maintenance />}
    >
      <HealthCard />
      {may('GET /ojs/v1/admin/system/ledger') && <LedgerCard />}
      {may('GET /ojs/v1/admin/operations') && <Operations />}
      {may('GET /ojs/v1/admin/system/config') && <Settings />}
    </Page>
  )
}

function HealthCard(): ReactNode {
  const health = useApi('GET /ojs/v1/health', {}, { every: 3_000 })
  return (
    <Card title={t.system.health}>
      <Loaded of={health}>
        {({ backend, ledger, uptime_seconds: uptime, draining }) => (
          <dl className="facts">
            <Fact name="RabbitMQ">
              {wordOf(backend.status)}
              {backend.latency_ms !== undefined && ` · ${duration(backend.latency_ms)}`}{' '}
              {backend.error}
            </Fact>
            <Fact name={t.system.ledger}>
              {wordOf(ledger.status)} {ledger.error}
            </Fact>
            <Fact name={t.system.uptime}>{duration(uptime * 1_000)}</Fact>
            <Fact name={t.system.active}>
              {backend.status === 'refused' ? t.system.standsBy : t.system.serves}
            </Fact>
            {draining && <Fact name={t.system.draining}>{t.yes}</Fact>}
          </dl>
        )}
      </Loaded>
    </Card>
  )
}

function Maintenance(): ReactNode {
  const may = useMay()
  const { data } = useApi(
    'GET /ojs/v1/admin/system/maintenance',
    {},
    { every: 5_000, isEnabled: may('GET /ojs/v1/admin/system/maintenance') },
  )
  if (!data || !may('POST /ojs/v1/admin/system/maintenance')) return null
  const { enabled } = data
  return (
    <Action
      name={enabled ? t.system.endMaintenance : t.system.beginMaintenance}
      question={<p>{enabled ? t.system.endQuestion : t.system.beginQuestion}</p>}
      act={() => call('POST /ojs/v1/admin/system/maintenance', { body: { enabled: !enabled } })}
      done={enabled ? t.system.ended : t.system.begun}
    />
  )
}

function Operations(): ReactNode {
  const operations = useApi('GET /ojs/v1/admin/operations', {}, { every: 3_000 })
  return (
    <Card title={t.system.operations}>
      <Loaded of={operations}>
        {({ items }) =>
          items.length === 0 ? (
            <p className="faint">{t.system.noOperations}</p>
          ) : (
            <Table
              label={t.system.operations}
              heads={[
                t.system.action,
                t.jobs.state,
                t.system.touched,
                t.system.by,
                t.system.begunAt,
              ]}
            >
              {items.map((each) => (
                <tr key={each.id}>
                  <td>{t.bulk[each.action]}</td>
                  <td>
                    <State of={each.state} />
                  </td>
                  <td className="number">
                    {number(each.succeeded)} / {number(each.expected)}
                  </td>
                  <td>{each.started_by ?? '–'}</td>
                  <td>
                    <When at={each.created_at} />
                  </td>
                </tr>
              ))}
            </Table>
          )
        }
      </Loaded>
    </Card>
  )
}

function Settings(): ReactNode {
  const config = useApi('GET /ojs/v1/admin/system/config')
  return (
    <Card title={t.system.settings}>
      <Loaded of={config}>
        {(settings) => (
          <Table
            label={t.system.settings}
            heads={[t.system.setting, t.system.value, t.system.source]}
          >
            {Object.entries(settings).map(([name, { value, source }]) => (
              <tr key={name}>
                <td>
                  <code>{`OJS_${name.toUpperCase()}`}</code>
                </td>
                <td>
                  <bdi>{typeof value === 'string' ? value : JSON.stringify(value)}</bdi>{' '}
                  <span className="faint">{inWords(value)}</span>
                </td>
                <td>{t.system.sources[source]}</td>
              </tr>
            ))}
          </Table>
        )}
      </Loaded>
    </Card>
  )
}

/** `PT604800S`: 7 d. */
function inWords(value: unknown): string {
  const [, seconds] = /^PT(\d+)S$/.exec(String(value)) ?? []
  return seconds === undefined ? '' : duration(Number(seconds) * 1_000)
}

function wordOf(status: string): string {
  const words: Readonly<Record<string, string>> = t.states
  return words[status] ?? status
}
