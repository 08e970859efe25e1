/** What a request brought: the answer, the wait for it, or what went wrong, with the request's id. */
import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { ApiError } from '../api/client.ts'
import { t } from '../text/text.ts'
import { Raw } from './raw.tsx'

interface LoadedProps<T> {
  of: UseQueryResult<T>
  children: (data: T) => ReactNode
}

/** An old answer stays while a new one fails: the banner of the page says that the connection is gone. */
export function Loaded<T>({ of, children }: LoadedProps<T>): ReactNode {
  if (of.data !== undefined) return children(of.data)
  if (of.isError) return <Trouble error={of.error} />
  return (
    <div className="loading" role="status">
      {t.loading}
    </div>
  )
}

export function Trouble({ error }: { error: unknown }): ReactNode {
  const requestId = error instanceof ApiError ? error.requestId : undefined
  return (
    <div className="trouble" role="alert">
      <p>
        <Raw text={sentenceOf(error)} />
      </p>
      {requestId !== undefined && (
        <p className="faint">
          {t.errors.request} <code>{requestId}</code>
        </p>
      )}
    </div>
  )
}

function sentenceOf(error: unknown): string {
  if (error instanceof ApiError && error.status === 0) return t.errors.unreachable
  if (error instanceof ApiError) return error.message || t.errors.status(error.status)
  return error instanceof Error ? error.message : String(error)
}
