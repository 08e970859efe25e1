/** The attempts that failed, the last one first. */
import type { ReactNode } from 'react'
import type { AttemptFailure } from '../../api/openapi.ts'
import { t } from '../../text/text.ts'
import { Card } from '../../ui/page.tsx'
import { Raw } from '../../ui/raw.tsx'
import { Tree } from '../../ui/tree.tsx'
import { When } from '../../ui/when.tsx'

export function Attempts({ errors }: { errors: readonly AttemptFailure[] }): ReactNode {
  return (
    <Card title={t.job.attempts}>
      <ol className="attempts" reversed>
        {errors.toReversed().map((error) => (
          <li key={`${error.attempt} ${error.occurred_at}`}>
            <header>
              <strong>{t.job.attemptNumber(error.attempt)}</strong>
              <When at={error.occurred_at} />
              {error.code !== undefined && <Code text={error.code} />}
              {error.type !== undefined && error.type !== error.code && <Code text={error.type} />}
              {error.retryable === false && <span className="state red">{t.job.forGood}</span>}
            </header>
            <p className="message">
              <Raw text={error.message} />
            </p>
            {error.details !== undefined && <Tree value={error.details} name={t.job.details} />}
            {error.backtrace !== undefined && <Backtrace of={error.backtrace} />}
          </li>
        ))}
      </ol>
    </Card>
  )
}

function Code({ text }: { text: string }): ReactNode {
  return (
    <code>
      <Raw text={text} />
    </code>
  )
}

function Backtrace({ of }: { of: string | unknown[] }): ReactNode {
  if (typeof of !== 'string') return <Tree value={of} name={t.job.backtrace} />
  return (
    <details>
      <summary>{t.job.backtrace}</summary>
      <pre>
        <Raw text={of} />
      </pre>
    </details>
  )
}
