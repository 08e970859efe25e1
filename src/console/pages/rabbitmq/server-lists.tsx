/** Nodes, connections, channels and policies, as the management API tells them. */
import type { ReactNode } from 'react'
import type { Rabbitmq } from '../../api/openapi.ts'
import { bytes, duration, number, orDash } from '../../text/format.ts'
import { t } from '../../text/text.ts'
import { Card } from '../../ui/page.tsx'
import { Raw } from '../../ui/raw.tsx'
import { State } from '../../ui/state.tsx'
import { right, Table } from '../../ui/table.tsx'
import { When } from '../../ui/when.tsx'

export function Nodes({ nodes }: { nodes: NonNullable<Rabbitmq['nodes']> }): ReactNode {
  return (
    <Card title={t.rabbitmq.nodes} aside={<Total of={nodes} />}>
      <Table
        label={t.rabbitmq.nodes}
        heads={[
          t.rabbitmq.node,
          t.jobs.state,
          right(t.rabbitmq.memory),
          right(t.rabbitmq.disk),
          right(t.system.uptime),
        ]}
      >
        {nodes.items.map((node) => (
          <tr key={node.name}>
            <td>{node.name}</td>
            <td>
              <State of={node.running ? 'up' : 'closed'} />
            </td>
            <td className={node.memory_alarm ? 'number bad' : 'number'}>
              {size(node.memory_used)} / {size(node.memory_limit)}
            </td>
            <td className={node.disk_alarm ? 'number bad' : 'number'}>
              {size(node.disk_free)} / {size(node.disk_limit)}
            </td>
            <td className="number">
              {node.uptime_ms === undefined ? '–' : duration(node.uptime_ms)}
            </td>
          </tr>
        ))}
      </Table>
    </Card>
  )
}

interface ConnectionsProps {
  connections: NonNullable<Rabbitmq['connections']>
}

export function ServerConnections({ connections }: ConnectionsProps): ReactNode {
  return (
    <Card isLong title={t.rabbitmq.connections} aside={<Total of={connections} />}>
      <Table
        label={t.rabbitmq.connections}
        heads={[
          t.rabbitmq.client,
          t.rabbitmq.user,
          t.rabbitmq.peer,
          t.jobs.state,
          right(t.rabbitmq.channels),
          t.rabbitmq.library,
          t.rabbitmq.since,
        ]}
      >
        {connections.items.map((one) => (
          <tr key={`${one.name} ${one.peer}`}>
            <td className="clip">
              <Raw text={one.name} />
            </td>
            <td>
              <Raw text={one.user ?? '–'} />
            </td>
            <td>{one.peer ?? '–'}</td>
            <td>{one.state === undefined ? '–' : <State of={one.state} />}</td>
            <td className="number">{orDash(one.channels)}</td>
            <td className="clip">{one.product === undefined ? '–' : <Raw text={one.product} />}</td>
            <td>
              <When at={one.connected_at} />
            </td>
          </tr>
        ))}
      </Table>
    </Card>
  )
}

export function Channels({ channels }: { channels: NonNullable<Rabbitmq['channels']> }): ReactNode {
  return (
    <Card isLong title={t.rabbitmq.channels} aside={<Total of={channels} />}>
      <Table
        label={t.rabbitmq.channels}
        heads={[
          t.rabbitmq.channel,
          t.rabbitmq.user,
          right(t.rabbitmq.consumers),
          right(t.rabbitmq.unacknowledged),
          right(t.rabbitmq.unconfirmed),
          right(t.rabbitmq.prefetch),
        ]}
      >
        {channels.items.map((one) => (
          <tr key={one.name}>
            <td>
              <Raw text={one.name} />
            </td>
            <td>
              <Raw text={one.user ?? '–'} />
            </td>
            <td className="number">{orDash(one.consumers)}</td>
            <td className="number">{orDash(one.unacknowledged)}</td>
            <td className="number">{orDash(one.unconfirmed)}</td>
            <td className="number">{orDash(one.prefetch)}</td>
          </tr>
        ))}
      </Table>
    </Card>
  )
}

export function Policies({ policies }: { policies: NonNullable<Rabbitmq['policies']> }): ReactNode {
  return (
    <Card isLong title={t.rabbitmq.policies} aside={<Total of={policies} />}>
      {policies.items.length === 0 ? (
        <p className="faint">{t.rabbitmq.noPolicies}</p>
      ) : (
        <Table
          label={t.rabbitmq.policies}
          heads={[
            t.rabbitmq.policy,
            t.rabbitmq.pattern,
            t.rabbitmq.appliesTo,
            t.rabbitmq.definition,
            right(t.job.priority),
          ]}
        >
          {policies.items.map((one) => (
            <tr key={one.name}>
              <td>
                <Raw text={one.name} />
              </td>
              <td>
                <code>
                  <Raw text={one.pattern} />
                </code>
              </td>
              <td>{one.applies_to}</td>
              <td>
                <Pairs of={one.definition} />
              </td>
              <td className="number">{number(one.priority)}</td>
            </tr>
          ))}
        </Table>
      )}
    </Card>
  )
}

/** Members of a map, one a line. */
function Pairs({ of }: { of: Readonly<Record<string, unknown>> }): ReactNode {
  return Object.entries(of).map(([name, value]) => (
    <div key={name}>
      <code>
        <Raw text={`${name}: ${JSON.stringify(value)}`} />
      </code>
    </div>
  ))
}

function Total({ of: { items, total } }: { of: { items: unknown[]; total: number } }): ReactNode {
  const some = items.length < total ? `${number(items.length)} / ` : ''
  return <span className="faint">{`${some}${number(total)}`}</span>
}

function size(value: number | undefined): string {
  return value === undefined ? '–' : bytes(value)
}
