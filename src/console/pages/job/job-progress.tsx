/** How far a running job is, in the words of its worker. */
import type { ReactNode } from 'react'
import { useApi } from '../../api/queries.ts'
import { t } from '../../text/text.ts'
import { Card } from '../../ui/page.tsx'
import { Raw } from '../../ui/raw.tsx'
import { Tree } from '../../ui/tree.tsx'
import { When } from '../../ui/when.tsx'

export function JobProgress({ id }: { id: string }): ReactNode {
  const { data } = useApi('GET /ojs/v1/jobs/{id}/progress', { path: { id } }, { every: 2_000 })
  if (!data || data.progress === null) return null
  return (
    <Card title={t.job.progress} aside={<When at={data.updated_at} />}>
      <progress aria-label={t.job.progress} max={1} value={data.progress} />
      <p>
        {Math.round(data.progress * 100)} % <Raw text={data.message ?? ''} />
      </p>
      {data.data !== null && <Tree value={data.data} name={t.job.progress} />}
    </Card>
  )
}
