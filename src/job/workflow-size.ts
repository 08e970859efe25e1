import { OjsError } from '../errors.ts'
import { utf8Bytes } from './text-size.ts'

/** What steps repeat of what the request says once: as much as a batch may say outright. */
const MAX_BYTES = 32 * 1024 * 1024
/** A copy of a member takes more time than one of its text: some 5 µs. */
const MEMBER_BYTES = 500

/**
 * What a plan repeats: the options of the workflow in each of its steps, and in each the ids of all
 * that it comes behind. A body of 2 MiB could ask for gigabytes of both.
 */
export class Repetition {
  #left = MAX_BYTES
  /** Many steps have one and the same. */
  readonly #sizes = new Map<object, number>()

  /** Before it is copied. Throws 413. `path`: of the step. */
  take(repeated: object, path: string): void {
    this.#left -= this.#sizeOf(repeated)
    if (this.#left >= 0) return
    throw new OjsError(
      'invalid_request',
      'The steps repeat too much: options of the workflow, or ids of the steps before them.',
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

/** Of all objects in it, however deep: each is copied, checked and written with each step. */
function membersIn(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  const values: unknown[] = Object.values(value)
  const own = Array.isArray(value) ? 0 : values.length
  return values.reduce((sum: number, one) => sum + membersIn(one), own)
}
