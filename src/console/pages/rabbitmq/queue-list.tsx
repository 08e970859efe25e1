/** The queues of RabbitMQ, and of each its arguments beside those with which we would declare it. */
import { Link } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import type { RabbitmqQueue } from '../../api/openapi.ts'
import { useApi } from '../../api/queries.ts'
import { orDash } from '../../text/format.ts'
import { t } from '../../text/text.ts'
import { Dialog } from '../../ui/dialog.tsx'
import { PagedTable } from '../../ui/paged-table.tsx'
import { usePages } from '../../ui/pager.tsx'
import { Raw } from '../../ui/raw.tsx'
import { State } from '../../ui/state.tsx'
import { right, Table } from '../../ui/table.tsx'

const HEADS = [
  t.rabbitmq.queue,
  t.rabbitmq.use,
  t.rabbitmq.type,
  right(t.rabbitmq.ready),
  right(t.rabbitmq.unacknowledged),
  right(t.rabbitmq.consumers),
  t.rabbitmq.policy,
  t.rabbitmq.arguments,
]

export function QueueList(): ReactNode {
  const pages = usePages(50)
  const queues = useApi(
    'GET /ojs/v1/admin/rabbitmq/queues',
    { query: pages.query },
    { every: 5_000 },
  )
  return (
    <PagedTable
      of={queues}
      pages={pages}
      itemsOf={(answer) => answer.items}
      empty={<p className="faint">{t.rabbitmq.noQueues}</p>}
      label={t.rabbitmq.queues}
      heads={HEADS}
      row={(queue) => <Row key={queue.name} queue={queue} />}
    />
  )
}

function Row({ queue }: { queue: RabbitmqQueue }): ReactNode {
  const [isOpen, setOpen] = useState(false)
  const { name, use, type, ready, unacknowledged, consumers, policy, expected } = queue
  const shownType = type ?? expected?.['x-queue-type']
  return (
    <tr>
      <td>
        <button type="button" className="link" data-row onClick={() => setOpen(true)}>
          <Raw text={name} />
        </button>
        {isOpen && <ArgumentsDialog queue={queue} onClose={() => setOpen(false)} />}
      </td>
      <td>{t.rabbitmq.uses[use]}</td>
      <td>{typeof shownType === 'string' ? shownType : '–'}</td>
      <td className="number">{orDash(ready)}</td>
      <td className="number">{orDash(unacknowledged)}</td>
      <td className="number">{orDash(consumers)}</td>
      <td>{policy === undefined ? '–' : <Raw text={policy} />}</td>
      <td>
        <State of={stateOf(queue)} />
      </td>
    </tr>
  )
}

function stateOf({ exists, expected, arguments: given, differing }: RabbitmqQueue): string {
  if (!exists) return 'missing'
  if (expected === undefined) return 'foreign'
  if (differing.length > 0) return 'differs'
  return given === undefined ? 'unread' : 'ours'
}

interface DialogProps {
  queue: RabbitmqQueue
  onClose: () => void
}

function ArgumentsDialog({ queue, onClose }: DialogProps): ReactNode {
  const { name, arguments: given = {}, expected = {}, differing } = queue
  const names = [...new Set([...Object.keys(expected), ...Object.keys(given)])].toSorted(
    (one, other) => (one < other ? -1 : 1),
  )
  return (
    <Dialog title={name} onClose={onClose}>
      <div className="dialog-body">
        <p>{t.rabbitmq.argumentsOf[stateOf(queue) as keyof typeof t.rabbitmq.argumentsOf]}</p>
        {queue.queue !== undefined && (
          <p>
            {t.jobs.queue}:{' '}
            <Link to="/queues/$name" params={{ name: queue.queue }} onClick={onClose}>
              {queue.queue}
            </Link>
          </p>
        )}
        <Table
          label={t.rabbitmq.arguments}
          heads={[t.rabbitmq.argument, t.rabbitmq.here, t.rabbitmq.ours]}
        >
          {names.map((each) => (
            <tr key={each}>
              <td>
                <code>{each}</code>
              </td>
              <td className={differing.includes(each) ? 'bad' : ''}>
                <Raw text={shown(given[each])} />
              </td>
              <td>
                <Raw text={shown(expected[each])} />
              </td>
            </tr>
          ))}
        </Table>
      </div>
    </Dialog>
  )
}

function shown(value: unknown): string {
  if (value === undefined) return '–'
  return typeof value === 'string' ? value : JSON.stringify(value)
}
