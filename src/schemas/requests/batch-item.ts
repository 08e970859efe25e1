/** Errors of a batch that name the job they are about. */
import { OjsError } from '../../errors.ts'

const ITEM = /^jobs\[(\d+)\]\.?/

/** Adds the job's index to an error (seed 001 §9.2, which prescribes the words for a missing member). */
export function atIndex(error: OjsError, index: number): OjsError {
  const { validation, field } = error.details ?? {}
  const fault =
    validation === 'required' ? ` is missing required field '${field}'.` : `: ${error.message}`
  return error.withDetails({ index }, `Batch validation failed: job at index ${index}${fault}`)
}

/**
 * Converts an error that was found in the text of the whole body, before its jobs were parsed, to an error of
 * the job in whose text it is. Returns any other error unchanged.
 */
export function explainItem(error: unknown): unknown {
  const field = error instanceof OjsError ? error.details?.['field'] : undefined
  if (!(error instanceof OjsError) || typeof field !== 'string') return error
  const [start = '', index] = ITEM.exec(field) ?? []
  if (index === undefined) return error
  const own = field.slice(start.length) || 'body'
  const message = error.message.replace(`'${field}'`, () => `'${own}'`)
  return atIndex(error.withDetails({ field: own }, message), Number(index))
}
