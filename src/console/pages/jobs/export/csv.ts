/** Jobs as lines of CSV (RFC 4180), none of whose cells a spreadsheet takes for a formula. */
import type { JobItem } from '../../../api/openapi.ts'

type Cell = string | number | undefined

const COLUMNS: readonly [name: string, of: (job: JobItem) => Cell][] = [
  ['id', ({ id }) => id],
  ['type', ({ type }) => type],
  ['queue', ({ queue }) => queue],
  ['state', ({ state }) => state],
  ['priority', ({ priority }) => priority],
  ['attempt', ({ attempt }) => attempt],
  ['max_attempts', (job) => job.max_attempts],
  ['tags', ({ tags }) => tags.join(' ')],
  ['created_at', (job) => job.created_at],
  ['enqueued_at', (job) => job.enqueued_at],
  ['scheduled_at', (job) => job.scheduled_at],
  ['started_at', (job) => job.started_at],
  ['completed_at', (job) => job.completed_at],
  ['cancelled_at', (job) => job.cancelled_at],
  ['discarded_at', (job) => job.discarded_at],
  ['next_attempt_at', (job) => job.next_attempt_at],
  ['expires_at', (job) => job.expires_at],
  ['worker_id', (job) => job.worker_id],
  ['workflow_id', (job) => job.workflow_id],
  ['error_code', ({ error }) => error?.code],
  ['error_type', ({ error }) => error?.type],
  ['error_message', ({ error }) => error?.message],
  ['args', ({ args }) => json(args)],
  ['meta', ({ meta }) => json(meta)],
]

/** What begins a formula in Excel, LibreOffice and Google Sheets, also behind spaces and in full width. */
const FORMULA = /^[\s\p{Cf}]*[=+\-@|%\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]/u

export const CSV_HEAD: string = lineOf(COLUMNS.map(([name]) => name))

export function csvLine(job: JobItem): string {
  return lineOf(COLUMNS.map(([, of]) => of(job)))
}

function json(value: unknown): string | undefined {
  return value === undefined ? undefined : JSON.stringify(value)
}

function lineOf(cells: readonly Cell[]): string {
  return `${cells.map(cellOf).join()}\r\n`
}

function cellOf(value: Cell): string {
  if (value === undefined) return ''
  if (typeof value === 'number') return String(value)
  const text = FORMULA.test(value) ? `'${value}` : value
  return /[",\r\n;\t']/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
