/** The AMQP message of a job's next attempt, as the gateway would publish it; asked for when it is opened. */
import { type ReactNode, useState } from 'react'
import { useApi } from '../../api/queries.ts'
import { bytes } from '../../text/format.ts'
import { t } from '../../text/text.ts'
import { Loaded } from '../../ui/answer.tsx'
import { Fact } from '../../ui/fact.tsx'
import { Card } from '../../ui/page.tsx'
import { Raw } from '../../ui/raw.tsx'
import { Tree } from '../../ui/tree.tsx'

export function Message({ id }: { id: string }): ReactNode {
  const [isOpen, setOpen] = useState(false)
  return (
    <Card
      title={t.message.title}
      aside={
        <button
          type="button"
          className="small"
          aria-expanded={isOpen}
          onClick={() => setOpen(!isOpen)}
        >
          {isOpen ? t.message.hide : t.message.show}
        </button>
      }
    >
      {isOpen ? <Content id={id} /> : <p className="faint">{t.message.what}</p>}
    </Card>
  )
}

function Content({ id }: { id: string }): ReactNode {
  const message = useApi('GET /ojs/v1/admin/jobs/{id}/message', { path: { id } })
  return (
    <Loaded of={message}>
      {({ exchange, routing_key: key, properties, headers, body, bytes: size }) => (
        <>
          <dl className="facts">
            <Fact name={t.message.exchange}>
              <code>{exchange}</code>
            </Fact>
            <Fact name={t.message.key}>
              <code>
                <Raw text={key} />
              </code>
            </Fact>
          </dl>
          <h3>{t.message.properties}</h3>
          <Tree value={properties} name={t.message.properties} />
          <h3>{t.message.headers}</h3>
          <Tree value={headers} name={t.message.headers} />
          <h3>
            {t.message.body} <span className="faint">{bytes(size)}</span>
          </h3>
          {body === undefined ? (
            <p className="hint">{t.job.withheld}</p>
          ) : (
            <Tree value={parsed(body)} name={t.message.body} />
          )}
        </>
      )}
    </Loaded>
  )
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body)
  } catch {
    return body
  }
}
