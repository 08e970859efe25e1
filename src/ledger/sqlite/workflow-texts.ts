import { ResultBudget } from '../../job/workflow-results.ts'
import type { WorkflowStatements } from './workflow-statements.ts'

interface Sized {
  jobId: string | null
  /** Of its result; 0: none. */
  bytes: number
}

/**
 * Steps in the order in which their results are shown, each with its own; null where it is only named.
 * A workflow may have a gigabyte of results, and shows one megabyte of them, or what `budget` has.
 */
export function withTexts<T extends Sized>(
  { result }: WorkflowStatements,
  steps: readonly T[],
  budget = new ResultBudget(),
): (T & { text: string | null })[] {
  return steps.map((step) => {
    const { jobId, bytes } = step
    const isShown = jobId !== null && bytes > 0 && budget.takes(bytes)
    const row = isShown ? result.get(jobId) : undefined
    return { ...step, text: row?.result ?? null }
  })
}
