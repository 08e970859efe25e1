/** Encrypted arguments, decoded by the operator's codec: the browser asks it, the gateway never sees the answer. */
import { useMutation } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { useSession } from '../../api/session.ts'
import { t } from '../../text/text.ts'
import { Trouble } from '../../ui/answer.tsx'
import { Tree } from '../../ui/tree.tsx'
import type { ShownJob } from './shown-job.ts'

export function Decoded({ job }: { job: ShownJob }): ReactNode {
  const { codec_url: url } = useSession()
  const decoding = useMutation({ mutationFn: (codec: string) => decode(codec, job) })
  if (url === undefined) return null
  return (
    <div className="decoded">
      {decoding.data === undefined ? (
        <button type="button" disabled={decoding.isPending} onClick={() => decoding.mutate(url)}>
          {t.job.decode}
        </button>
      ) : (
        <>
          <h3>{t.job.decoded}</h3>
          <Tree value={decoding.data} name={t.job.decoded} />
        </>
      )}
      {decoding.isError && <Trouble error={decoding.error} />}
    </div>
  )
}

async function decode(url: string, { id, type, queue, args, meta }: ShownJob): Promise<unknown[]> {
  const response = await answered(url, { job_id: id, type, queue, args, meta })
  if (!response.ok) throw new Error(t.job.codecSaid(response.status))
  const said: unknown = await response.json().catch(() => null)
  const decoded = typeof said === 'object' && said !== null && 'args' in said ? said.args : null
  if (!Array.isArray(decoded)) throw new Error(t.job.notDecoded)
  return decoded
}

async function answered(url: string, body: object): Promise<Response> {
  try {
    return await fetch(url, {
      method: 'POST',
      credentials: 'include',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
    })
  } catch {
    // The browser does not tell which of the two it was.
    throw new Error(t.job.noCodec)
  }
}
