/**
 * What validations may cost together, in steps of very roughly 20 ns. A JSON Schema can ask for
 * exponential work (`allOf` of two `$ref`s, thirty times over) and a regular expression for slow
 * work; no look at the schema alone tells, so every step is paid for as it is taken.
 */
export class Fuel {
  #left: number
  #toCompile = MAX_COMPILED

  constructor(steps: number = FULL_TANK) {
    this.#left = steps
  }

  /** Throws `OutOfFuel`. */
  take(steps: number): void {
    this.#left -= steps
    if (this.#left < 0) throw new OutOfFuel()
  }

  /** False: as much has been compiled for this request as it may have. */
  get mayCompile(): boolean {
    return this.#toCompile > 0
  }

  /** `size`: its subschemas. */
  compiled(size: number): void {
    this.#toCompile -= size + 1
  }
}

/** Subschemas that one request may have compiled, each some 0.3 ms; the last schema may go beyond. */
const MAX_COMPILED = 1_000

/** Some 50 ms in which nothing else happens here; an array of a million numbers needs half of it. */
const FULL_TANK = 4_000_000

/** A large batch needs more than a job; a small one is no way to more than a job may have. */
export function stepsFor(jobs: number): number {
  return FULL_TANK + jobs * 20_000
}

export class OutOfFuel extends Error {
  override readonly name = 'OutOfFuel'
}
