/** Nothing there: what that means, and a line for the shell that changes it. */
import type { ReactNode } from 'react'
import { CopyButton } from './copy.tsx'

export function Empty({ text, line }: { text: string; line?: string }): ReactNode {
  return (
    <div className="empty">
      <p>{text}</p>
      {line !== undefined && (
        <div className="shell">
          <code>{line}</code>
          <CopyButton text={line} />
        </div>
      )}
    </div>
  )
}
