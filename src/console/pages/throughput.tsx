/** How many jobs a minute are completed, and fail. */
import type { ReactNode } from 'react'
import { short } from '../text/format.ts'
import { t } from '../text/text.ts'
import { Figure } from '../ui/page.tsx'

interface ThroughputProps {
  completed: number
  failed: number
}

export function Throughput({ completed, failed }: ThroughputProps): ReactNode {
  return (
    <>
      <Figure name={t.overview.completed} value={short(completed)} note={t.overview.perMinute} />
      <Figure
        name={t.overview.failed}
        value={short(failed)}
        note={t.overview.perMinute}
        tone={failed > 0 ? 'bad' : undefined}
      />
    </>
  )
}
