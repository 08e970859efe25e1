/** The code of a job's last error, as the index of codes has it. */

/** As written in JSON: a code may have a NUL, which PostgreSQL's text may not. A longer code is cut. */
const MAX_LENGTH = 255

/** What jobs whose last error has this code are found by. */
export function errorKey(code: string): string {
  return JSON.stringify(code).slice(1, -1).slice(0, MAX_LENGTH)
}

/** The same of an error, in which the code comes first. '': there is none. */
export function errorKeyOf(error: string | null): string {
  const beginning = error?.slice(0, 2_000) ?? ''
  return /^\{"code":"((?:[^"\\]|\\.)*)"/.exec(beginning)?.[1]?.slice(0, MAX_LENGTH) ?? ''
}
