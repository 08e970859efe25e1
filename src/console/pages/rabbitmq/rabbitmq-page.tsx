/** RabbitMQ: how it is, who is connected, and which queues it has beside those that we would declare. */
import type { ReactNode } from 'react'
import type { Rabbitmq } from '../../api/openapi.ts'
import { useApi } from '../../api/queries.ts'
import { number } from '../../text/format.ts'
import { t } from '../../text/text.ts'
import { Loaded } from '../../ui/answer.tsx'
import { Fact } from '../../ui/fact.tsx'
import { Card, Page } from '../../ui/page.tsx'
import { State } from '../../ui/state.tsx'
import { right, Table } from '../../ui/table.tsx'
import { Comparison } from './comparison.tsx'
import { QueueList } from './queue-list.tsx'
import { Channels, Nodes, Policies, ServerConnections } from './server-lists.tsx'

export function RabbitmqPage(): ReactNode {
  const rabbitmq = useApi('GET /ojs/v1/admin/rabbitmq', {}, { every: 5_000 })
  const { data } = rabbitmq
  return (
    <Page title={t.nav.rabbitmq} aside={data && <span className="faint">{data.version}</span>}>
      <Loaded of={rabbitmq}>{(found) => <Server server={found} />}</Loaded>
    </Page>
  )
}

function Server({ server }: { server: Rabbitmq }): ReactNode {
  const { connections, channels, nodes, policies } = server
  return (
    <>
      <Alarms server={server} />
      <Card title={t.rabbitmq.server} aside={<State of={server.status} />}>
        <Facts server={server} />
        <Management server={server} />
      </Card>
      <Comparison />
      <Card title={t.rabbitmq.own}>
        <OwnConnections server={server} />
      </Card>
      {nodes && <Nodes nodes={nodes} />}
      <h2 className="section">{t.rabbitmq.queues}</h2>
      <QueueList />
      {policies && <Policies policies={policies} />}
      {connections && <ServerConnections connections={connections} />}
      {channels && <Channels channels={channels} />}
    </>
  )
}

function Alarms({ server: { status, reason, nodes, warnings } }: { server: Rabbitmq }): ReactNode {
  const alarms = nodes?.items.flatMap((node) => [
    ...(node.memory_alarm ? [t.rabbitmq.memoryAlarm(node.name)] : []),
    ...(node.disk_alarm ? [t.rabbitmq.diskAlarm(node.name)] : []),
  ])
  const told = [
    ...(status === 'up' ? [] : [reason ?? status]),
    ...(alarms ?? []),
    ...warnings.map(({ message }) => message),
  ]
  if (told.length === 0) return null
  return (
    <ul className="warnings" aria-label={t.rabbitmq.alarms}>
      {told.map((text) => (
        <li key={text} className="warning">
          {text}
        </li>
      ))}
    </ul>
  )
}

function Facts({ server }: { server: Rabbitmq }): ReactNode {
  const rows: [string, string | undefined][] = [
    [t.workers.version, server.version || undefined],
    [t.rabbitmq.erlang, server.erlang_version],
    [t.rabbitmq.cluster, server.cluster_name],
    [t.rabbitmq.virtualHost, server.virtual_host],
  ]
  return (
    <dl className="facts">
      {rows.map(
        ([name, value]) =>
          value !== undefined && (
            <Fact key={name} name={name}>
              {value}
            </Fact>
          ),
      )}
    </dl>
  )
}

/** What is not shown, and what to set for it. */
function Management({ server }: { server: Rabbitmq }): ReactNode {
  const { management, management_error: reason, nodes } = server
  const lacks = nodes === undefined || server.connections === undefined
  if (management === 'connected' && !lacks) return null
  const told = management === 'connected' ? t.rabbitmq.partly : t.rabbitmq.management[management]
  return (
    <p className="hint note-below">
      {told} {reason}
    </p>
  )
}

function OwnConnections({ server }: { server: Rabbitmq }): ReactNode {
  return (
    <Table
      label={t.rabbitmq.own}
      heads={[t.rabbitmq.purpose, t.jobs.state, right(t.rabbitmq.channels), t.rabbitmq.reason]}
    >
      {server.gateway_connections.map(({ name, up, channels, reason }) => (
        <tr key={name}>
          <td>{t.rabbitmq.purposes[name as keyof typeof t.rabbitmq.purposes] ?? name}</td>
          <td>
            <State of={up ? 'up' : 'closed'} />
          </td>
          <td className="number">{number(channels)}</td>
          <td>{reason ?? '–'}</td>
        </tr>
      ))}
    </Table>
  )
}
