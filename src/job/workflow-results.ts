import type { Inputs, ResultList } from './workflow.ts'

/** A larger result goes by reference (ojs-digest §8.3). */
const MAX_INLINE_BYTES = 65_536
/** All results shown in one job or one answer, in bytes: as much as one alone may have. */
const MAX_TOTAL_BYTES = 1_048_576

/** What a job of the workflow has returned. */
export interface StepResult {
  jobId: string
  /** JSON text; null: none, or it is not to be shown. */
  text: string | null
  /** Of the text; 0: none. */
  bytes: number
}

/** Decides what is shown and what is only named: one for each answer, or each job. */
export class ResultBudget {
  #left: number

  /** `maxBytes`: where there is less room than for one answer. */
  constructor(maxBytes: number = MAX_TOTAL_BYTES) {
    this.#left = Math.min(maxBytes, MAX_TOTAL_BYTES)
  }

  /** Is the next one shown, given its bytes? Then there is less room for those behind it. */
  takes(bytes: number): boolean {
    if (bytes > MAX_INLINE_BYTES || bytes > this.#left) return false
    this.#left -= bytes
    return true
  }

  /** JSON text: the result, a reference to it, or null where there is none. */
  show(result: StepResult | undefined): string {
    if (result === undefined || result.bytes === 0) return 'null'
    const { text, bytes } = result
    return text !== null && this.takes(bytes) ? text : reference(result)
  }
}

function reference({ jobId, bytes }: StepResult): string {
  return JSON.stringify({
    result_ref: `/ojs/v1/jobs/${jobId}`,
    result_size_bytes: bytes,
    result_content_type: 'application/json',
  })
}

/**
 * `parent_results` of a job as JSON text: an array for chain, group and batch, an object by step id
 * for the seed's form (ojs-digest C-75). What is nearest is shown first; null stands for a step
 * without a result, or one that has failed.
 *
 * `named`: the ids of the steps that `inputs` names, by their node. `budget`: of this job alone.
 */
export function parentResults(
  inputs: Inputs,
  results: ReadonlyMap<number, StepResult>,
  named: ReadonlyMap<number, string>,
  budget = new ResultBudget(),
): string {
  const shown = new Map<number, string>()
  const show = (node: number) => void shown.set(node, budget.show(results.get(node)))
  nearestFirst(inputs).forEach(show)
  if (Array.isArray(inputs)) return listText(inputs, shown)
  const members = inputs.steps.map(
    (node) => `${JSON.stringify(named.get(node) ?? String(node))}:${shown.get(node) ?? 'null'}`,
  )
  return `{${members.join(',')}}`
}

/** The nodes whose results are wanted, in the order in which they are shown for as long as there is room. */
export function nearestFirst(inputs: Inputs): number[] {
  return nodesIn(inputs).toReversed()
}

/** Each once, in the order of the text. */
function nodesIn(inputs: Inputs): number[] {
  if (!Array.isArray(inputs)) return inputs.steps
  return inputs.flatMap((item) => (typeof item === 'number' ? [item] : nodesIn(item)))
}

function listText(list: ResultList, shown: ReadonlyMap<number, string>): string {
  const items = list.map((item) =>
    typeof item === 'number' ? (shown.get(item) ?? 'null') : listText(item, shown),
  )
  return `[${items.join(',')}]`
}
