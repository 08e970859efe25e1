/** CostBudget: a budget for the validations of one request, charged step by step. */

/**
 * What the validations of a request may cost together, in steps of very roughly 20 ns. A JSON Schema can ask
 * for exponential work (`allOf` of two `$ref`s, thirty times over), and a regular expression for slow work.
 * The schema alone does not show this, so every step is charged when it is taken.
 */
export class CostBudget {
  #left: number
  #toCompile = MAX_COMPILED

  constructor(steps: number = FULL_TANK) {
    this.#left = steps
  }

  /** Throws `CostExceeded`. */
  take(steps: number): void {
    this.#left -= steps
    if (this.#left < 0) throw new CostExceeded()
  }

  /** False when the request has used up what may be compiled for it while others compile too. */
  get mayCompile(): boolean {
    return this.#toCompile > 0
  }

  /** Charges for a schema that was compiled; `size`: its number of subschemas. */
  compiled(size: number): void {
    this.#toCompile -= size + 1
  }
}

/** Subschemas that any request may compile, each some 0.3 ms; the last schema may exceed this. */
const MAX_COMPILED = 1_000

/** Some 50 ms during which this process does nothing else. An array of a million numbers needs half of it. */
const FULL_TANK = 4_000_000

/** A large batch needs more steps than a single job; a small batch gets hardly more than a single job. */
export function stepsFor(jobs: number): number {
  return FULL_TANK + jobs * 20_000
}

export class CostExceeded extends Error {
  override readonly name = 'CostExceeded'
}
