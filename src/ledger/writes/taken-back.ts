/** A write that undoes itself and still has an outcome. */

/**
 * Thrown by a write to undo its changes and still resolve, with `outcome`. In SQLite only changes behind
 * `protect()` are rolled back, so a write that throws this must have changed nothing before it called `protect`.
 */
export class TakenBack extends Error {
  readonly outcome: unknown

  constructor(outcome: unknown) {
    super('a write has taken back what it had done')
    this.outcome = outcome
  }
}
