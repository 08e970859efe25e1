/** Documents of jobs for readers who may see everything but what the jobs carry. */
import { membersOf } from './values/json-value.ts'

/** Members of an error that a program chose, and that tell nothing of the job's data. */
const SHOWN_OF_ERROR = ['attempt', 'code', 'type', 'retryable', 'occurred_at', 'timestamp']

/** What a job carries or its worker said, beside `args` and errors. `parent_results`: of the steps before it. */
const PAYLOADS = [
  'result',
  'parent_results',
  'progress_data',
  'progress_message',
  'checkpoint',
  'last_checkpoint',
]

/**
 * The document without `args` (it has none), results, what its worker said, and the texts of errors; `payload_withheld` says so. It is
 * a job by OJS's schema still.
 */
export function withheld(document: Record<string, unknown>): Record<string, unknown> {
  const { error, errors, ...others } = document
  const shown = Object.entries(others).filter(([name]) => !PAYLOADS.includes(name))
  return {
    ...Object.fromEntries(shown),
    args: [],
    ...(error !== undefined && { error: withoutText(error) }),
    ...(Array.isArray(errors) && { errors: errors.map(withoutText) }),
    payload_withheld: true,
  }
}

/** The same for the JSON text of a job. */
export function withheldText(document: string): string {
  return JSON.stringify(withheld(membersOf(JSON.parse(document))))
}

/** An error without message, details and backtrace. */
export function withoutText(error: unknown): unknown {
  if (error === null) return null
  const members = membersOf(error)
  const shown = SHOWN_OF_ERROR.filter((name) => members[name] !== undefined)
  return {
    ...Object.fromEntries(shown.map((name) => [name, members[name]])),
    message: 'Withheld from this role.',
  }
}
