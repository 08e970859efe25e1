/** Bounds what a plan repeats for its steps. */
import { OjsError } from '../../errors.ts'
import { utf8Bytes } from '../values/limits.ts'

/** How much the steps may repeat in all: as much as a batch may contain. */
const MAX_BYTES = 32 * 1024 * 1024
/** Counted for each member beside its text, since copying a member takes some 5 µs. */
const MEMBER_BYTES = 500

/**
 * Bounds what a plan repeats: each step gets a copy of the workflow's options and the ids of the steps that
 * it waits for. A body of 2 MiB could ask for gigabytes of both.
 */
export class Repetition {
  #left = MAX_BYTES
  /** Sizes by object, as many steps repeat the same one. */
  readonly #sizes = new Map<object, number>()

  /** Counts a copy of `repeated`; to be called before it is made. Throws 413. `path`: that of the step. */
  take(repeated: object, path: string): void {
    this.#left -= this.#sizeOf(repeated)
    if (this.#left >= 0) return
    throw new OjsError(
      'invalid_request',
      'The workflow is too large: each step repeats its options and the ids of earlier steps.',
      { status: 413, details: { field: path, max_bytes: MAX_BYTES } },
    )
  }

  #sizeOf(repeated: object): number {
    const known = this.#sizes.get(repeated)
    if (known !== undefined) return known
    const size = utf8Bytes(JSON.stringify(repeated)) + MEMBER_BYTES * membersIn(repeated)
    this.#sizes.set(repeated, size)
    return size
  }
}

/** Counts the members of all objects in a value, at any depth: all are copied for each step. */
function membersIn(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  const values: unknown[] = Object.values(value)
  const own = Array.isArray(value) ? 0 : values.length
  return values.reduce((sum: number, inner) => sum + membersIn(inner), own)
}
