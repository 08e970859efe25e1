/** Errors of a batch that name the job they are about. */
import type { OjsError } from '../../errors.ts'

/** Adds the job's index to an error (seed 001 §9.2, which prescribes the words for a missing member). */
export function atIndex(error: OjsError, index: number): OjsError {
  const { validation, field } = error.details ?? {}
  const fault =
    validation === 'required' ? ` is missing required field '${field}'.` : `: ${error.message}`
  return error.withDetails({ index }, `Batch validation failed: job at index ${index}${fault}`)
}
