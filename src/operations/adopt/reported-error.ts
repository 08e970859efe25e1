import type { ReportedError } from '../../job/retry/failure.ts'

/**
 * Reads the `x-ojs-error-*` headers, in which a foreign worker describes the failure of the attempt before
 * (seed 002 §6.2); null: there are none.
 */
export function reportedError(headers: Readonly<Record<string, unknown>>): ReportedError | null {
  const { 'x-ojs-error-message': message, 'x-ojs-error-code': code } = headers
  if (typeof message !== 'string' && typeof code !== 'string') return null
  return {
    code: typeof code === 'string' ? code : 'handler_error',
    message: typeof message === 'string' ? message : '',
  }
}
