/** How many jobs a minute are completed, and fail. */
import type { ReactNode } from 'react'
import { number } from '../text/format.ts'
import { t } from '../text/text.ts'
import { Figure } from '../ui/page.tsx'

interface ThroughputProps {
  completed: number
  failed: number
}

export function Throughput({ completed, failed }: ThroughputProps): ReactNode {
  return (
    <>
      <Figure name={t.overview.completed} value={number(completed)} note={t.overview.perMinute} />
      <Figure
        name={t.overview.failed}
        value={number(failed)}
        note={t.overview.perMinute}
        tone={failed > 0 ? 'bad' : undefined}
      />
    </>
  )
}
