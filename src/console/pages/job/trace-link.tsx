/** The id of the job's trace, which leads to where traces are shown. */
import type { ReactNode } from 'react'
import { useSession } from '../../api/session.ts'

export function TraceLink({ id }: { id: string }): ReactNode {
  const { trace_url: template } = useSession()
  if (template === undefined) return <code>{id}</code>
  return (
    <a
      href={template.replaceAll('{trace_id}', encodeURIComponent(id))}
      target="_blank"
      rel="noreferrer"
    >
      <code>{id}</code>
    </a>
  )
}
