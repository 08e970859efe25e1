/** What each list of jobs has: the type, which leads to the job, its state and its queue. */
import { Link } from '@tanstack/react-router'
import type { KeyboardEventHandler, ReactNode } from 'react'
import type { JobItem } from '../../api/openapi.ts'
import { State } from '../../ui/state.tsx'

interface JobCellsProps {
  job: Pick<JobItem, 'id' | 'type' | 'state' | 'queue'>
  onKeyDown?: KeyboardEventHandler
}

export function JobCells({ job: { id, type, state, queue }, onKeyDown }: JobCellsProps): ReactNode {
  return (
    <>
      <td>
        <Link
          to="/jobs/$id"
          params={{ id }}
          data-row
          title={id}
          {...(onKeyDown !== undefined && { onKeyDown })}
        >
          {type}
        </Link>
      </td>
      <td>
        <State of={state} />
      </td>
      <td>{queue}</td>
    </>
  )
}
