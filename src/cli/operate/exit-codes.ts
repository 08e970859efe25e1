/** How an operator's command ends: its exit code, and the line that says why. */
import { OJSError, OJSNotFoundError, OJSTransportError } from '../../sdk/index.ts'

/** The exit codes, as docs/reference/cli.md lists them. */
export const EXIT = {
  done: 0,
  refused: 1,
  mistake: 2,
  notFound: 3,
  unreachable: 4,
  /** Of many jobs some were left alone, or the operation was stopped. */
  partly: 5,
} as const

/** Arguments that make no sense; found before anything is sent. */
export class Mistake extends Error {
  override readonly name = 'Mistake'
}

/** The exit code for an error, and what to print; null: it is none of those that a command expects. */
export function endOf(error: unknown): { code: number; text: string } | null {
  if (error instanceof Mistake) return { code: EXIT.mistake, text: error.message }
  if (error instanceof OJSNotFoundError) return { code: EXIT.notFound, text: textOf(error) }
  if (error instanceof OJSError) return { code: EXIT.refused, text: textOf(error) }
  if (error instanceof OJSTransportError) return { code: EXIT.unreachable, text: error.message }
  // What the SDK throws for options that it does not take.
  return error instanceof TypeError ? { code: EXIT.mistake, text: error.message } : null
}

function textOf({ message, code, requestId }: OJSError): string {
  return `${message} (${code}${requestId === undefined ? '' : `, request ${requestId}`})`
}
