import type { ReportedError } from '../../job/arrival.ts'

/** What a foreign worker said of the attempt that it did not report (seed 002 §6.2); null: nothing. */
export function reportedError(headers: Readonly<Record<string, unknown>>): ReportedError | null {
  const { 'x-ojs-error-message': message, 'x-ojs-error-code': code } = headers
  if (typeof message !== 'string' && typeof code !== 'string') return null
  return {
    code: typeof code === 'string' ? code : 'handler_error',
    message: typeof message === 'string' ? message : '',
  }
}
