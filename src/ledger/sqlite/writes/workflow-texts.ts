import { cut } from '../../../job/values/limits.ts'
import { ResultBudget } from '../../../job/workflow/results.ts'
import { onlyRow } from '../sql/driver.ts'
import type { WorkflowStatements } from '../sql/workflow.ts'

interface Sized {
  jobId: string | null
  /** The size of its result; 0: none. */
  bytes: number
}

/**
 * Adds its result to each step, given in the order in which they are shown; null where only the reference
 * is shown. A workflow may have a gigabyte of results, and an answer shows one megabyte of them.
 */
export function withTexts<T extends Sized>(
  { result }: WorkflowStatements,
  steps: readonly T[],
): (T & { text: string | null })[] {
  const budget = new ResultBudget()
  return steps.map((step) => {
    const { jobId, bytes } = step
    const isShown = jobId !== null && bytes > 0 && budget.takes(bytes)
    const row = isShown ? result.get(jobId) : undefined
    return { ...step, text: row?.result ?? null }
  })
}

/** Bytes of the steps' errors that one answer shows whole. */
const MAX_ERROR_BYTES = 1_048_576
/** Characters of an error's message beyond that; the whole message is at `GET /jobs/:id`. */
const BRIEF_MESSAGE = 1_000

/**
 * Adds its error (JSON text) to each step, given in the order in which they are shown. Hundreds of steps may
 * have failed, each with an error of 85 kB: after the first megabyte, only `code` and the beginning of
 * `message` are read.
 */
export function withErrors<T extends { node: number; errorBytes: number }>(
  { error, briefError }: WorkflowStatements,
  seq: number,
  steps: readonly T[],
): (T & { error: string | null })[] {
  let left = MAX_ERROR_BYTES
  return steps.map((step) => {
    const { node, errorBytes } = step
    if (errorBytes === 0) return { ...step, error: null }
    if (errorBytes <= left) {
      left -= errorBytes
      return { ...step, error: onlyRow(error.get(seq, node)).error }
    }
    const { said } = onlyRow(briefError.get(seq, node))
    const [code, message]: [code: string, message: string] = JSON.parse(said)
    return { ...step, error: JSON.stringify({ code, message: cut(message, BRIEF_MESSAGE) }) }
  })
}
