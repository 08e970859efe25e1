/** Which texts of its steps an answer about a workflow shows. */
import { cut } from '../../job/values/limits.ts'
import { ResultBudget } from '../../job/workflow/results.ts'

/** What is known of a step before its texts are read. */
interface Sized {
  isCallback: boolean | number
  jobId: string | null
  /** The size of its result; 0: none. */
  bytes: number
  /** The same of its error. */
  errorBytes: number
}

/** `isShown`: its result is shown, and not only a reference to it. */
export type Shown<T> = T & { isShown: boolean; error: 'whole' | 'brief' | null }

/** Bytes of the steps' errors that one answer shows whole. */
const MAX_ERROR_BYTES = 1_048_576
/** Characters of an error's message beyond that; the whole message is at `GET /jobs/:id`. */
const BRIEF_MESSAGE = 1_000

/**
 * The steps in the order in which `workflowDocument` shows them: callbacks last. A workflow may have a gigabyte of
 * results, and an answer shows one megabyte of them. Hundreds of steps may have failed, each with an error of 85 kB:
 * after the first megabyte, only `code` and the beginning of `message` are shown.
 */
export function shownSteps<T extends Sized>(steps: readonly T[]): Shown<T>[] {
  const callbacks = steps.filter(({ isCallback }) => isCallback)
  const others = steps.filter(({ isCallback }) => !isCallback)
  const budget = new ResultBudget()
  let left = MAX_ERROR_BYTES
  return [...others, ...callbacks].map((step) => {
    const { jobId, bytes, errorBytes } = step
    const isShown = jobId !== null && bytes > 0 && budget.takes(bytes)
    if (errorBytes === 0) return { ...step, isShown, error: null }
    if (errorBytes > left) return { ...step, isShown, error: 'brief' }
    left -= errorBytes
    return { ...step, isShown, error: 'whole' }
  })
}

/** JSON text. */
export function briefError(code: unknown, message: unknown): string {
  const shown = typeof message === 'string' ? cut(message, BRIEF_MESSAGE) : message
  return JSON.stringify({ code, message: shown })
}

/** When the first job of a workflow began; null: none has. */
export function firstStart(steps: readonly { startedAt: number | null }[]): number | null {
  const starts = steps.map(({ startedAt }) => startedAt).filter((at) => at !== null)
  return starts.length === 0 ? null : Math.min(...starts)
}
