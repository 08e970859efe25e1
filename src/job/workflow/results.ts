/** The results of earlier steps in a job: inline, or by reference. */
import type { Inputs, ResultList } from './workflow.ts'

/** A larger result is replaced by a reference (OJS workflows). */
const MAX_INLINE_BYTES = 65_536
/** All results shown in one job or one answer, in bytes: as many as a single stored result may have. */
const MAX_TOTAL_BYTES = 1_048_576

/** The result of a job of the workflow. */
export interface StepResult {
  /** The id of the step. */
  id: string
  jobId: string
  /** Size of the result; 0: there is none. */
  bytes: number
}

/** Decides which results are shown and which are replaced by references, in one answer or one job. */
export class ResultBudget {
  #left: number

  /** `maxBytes`: a smaller limit than that of one answer. */
  constructor(maxBytes: number = MAX_TOTAL_BYTES) {
    this.#left = Math.min(maxBytes, MAX_TOTAL_BYTES)
  }

  /** Returns true, and takes its bytes from the budget, if the next result is to be shown. */
  takes(bytes: number): boolean {
    if (bytes > MAX_INLINE_BYTES || bytes > this.#left) return false
    this.#left -= bytes
    return true
  }

  /**
   * Returns JSON text: the result, a reference to it, or `null` if there is none. `textOf`: returns the
   * result as JSON text; called only if it is to be shown. Null: nobody has read the text.
   */
  show<R extends Sized>(result: R, textOf: (result: R) => string | null): string {
    if (result.bytes === 0) return 'null'
    return (this.takes(result.bytes) ? textOf(result) : null) ?? reference(result)
  }
}

type Sized = Omit<StepResult, 'id'>

function reference({ jobId, bytes }: Sized): string {
  return JSON.stringify({
    result_ref: `/ojs/v1/jobs/${jobId}`,
    result_size_bytes: bytes,
    result_content_type: 'application/json',
  })
}

/**
 * The `parent_results` of a job as JSON text: an array for chain, group and batch, an object by step id for
 * the seed's form (ojs-choices C-75). The results of the nearest steps take from the budget first. Null stands
 * for a step without a result, or one that has failed.
 *
 * `results`: those of the nodes in `inputs`. `budget`: that of this job. `textOf`: as in `ResultBudget.show`.
 */
export function parentResults<R extends StepResult>(
  inputs: Inputs,
  results: ReadonlyMap<number, R>,
  budget: ResultBudget,
  textOf: (result: R) => string | null,
): string {
  const shown = new Map<number, string>()
  for (const node of nodesIn(inputs).toReversed()) {
    const result = results.get(node)
    if (result) shown.set(node, budget.show(result, textOf))
  }
  if (Array.isArray(inputs)) return listText(inputs, shown)
  const members = inputs.steps.map(
    (node) => `${JSON.stringify(results.get(node)?.id ?? '')}:${shown.get(node) ?? 'null'}`,
  )
  return `{${members.join(',')}}`
}

/** The nodes in `inputs`, the nearest last, in the order in which the text shows them. */
export function nodesIn(inputs: Inputs): number[] {
  if (!Array.isArray(inputs)) return inputs.steps
  return inputs.flatMap((item) => (typeof item === 'number' ? [item] : nodesIn(item)))
}

function listText(list: ResultList, shown: ReadonlyMap<number, string>): string {
  const items = list.map((item) =>
    typeof item === 'number' ? (shown.get(item) ?? 'null') : listText(item, shown),
  )
  return `[${items.join(',')}]`
}
