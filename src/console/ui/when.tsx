/** A time: how long ago, or until when; the instant itself when one points at it. */
import type { ReactNode } from 'react'
import { instant, relative } from '../text/format.ts'
import { useNow } from './now.ts'

export function When({ at }: { at: string | null | undefined }): ReactNode {
  const now = useNow()
  if (!at) return <span className="faint">–</span>
  return (
    <time dateTime={at} title={instant(at)}>
      {relative(at, now)}
    </time>
  )
}
