/** Of an action whose answer has not come: that it is under way, and after a while that it may yet happen. */
import { type ReactNode, useEffect, useState } from 'react'
import { t } from '../text/text.ts'

/** Most answers are there before one could read that they are waited for. */
const SOON_MS = 700
const LATE_MS = 10_000

/** Of a mutation. */
export interface Sent {
  isPending: boolean
  submittedAt: number
}

export function UnderWay({ of }: { of: Sent }): ReactNode {
  const isSlow = useLasting(of, SOON_MS)
  const isLate = useLate(of)
  return (
    <div className="under-way" aria-live="polite">
      {isLate ? <p>{t.action.late}</p> : isSlow && <p className="faint">{t.action.underWay}</p>}
    </div>
  )
}

/** Whether the answer has not come for so long that somebody has to be told. */
export function useLate(of: Sent): boolean {
  return useLasting(of, LATE_MS)
}

function useLasting({ isPending, submittedAt }: Sent, ms: number): boolean {
  const [isLasting, setLasting] = useState(false)
  useEffect(() => {
    if (!isPending) return undefined
    const timer = setTimeout(() => setLasting(true), submittedAt + ms - Date.now())
    return () => {
      clearTimeout(timer)
      setLasting(false)
    }
  }, [isPending, submittedAt, ms])
  return isLasting
}
