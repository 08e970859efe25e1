import type { Cancelled } from '../ledger.ts'
import type { CancelledWorkflow } from '../workflows.ts'
import { cancelJob } from './cancel.ts'
import type { Store } from './store.ts'

/** Cancels the workflow first, so that the cancel of one job begins no other step, and then its jobs. */
export function cancelWorkflow(store: Store, id: string, now: number): CancelledWorkflow | 'stale' {
  const { statements } = store.workflows
  const row = statements.cancel.get(id, now)
  if (row === undefined) return 'stale'
  const { seq, ...workflow } = row
  store.workflows.moved('running', 'cancelled')
  const steps = statements.cancelSteps.all(seq, now)
  const jobs: Cancelled[] = []
  for (const { jobId } of steps) {
    const cancelled = jobId === null ? 'stale' : cancelJob(store, jobId, now)
    if (cancelled !== 'stale') jobs.push(cancelled)
  }
  // Callbacks that never began are not counted: nobody waits for them.
  const counted = steps.filter((step) => step.type !== null && !(step.isCallback && !step.jobId))
  return { workflow, stepsCancelled: counted.length, jobs }
}
