/** Tables and lines for a terminal. */
import { once } from 'node:events'
import { stdout } from 'node:process'
import Table from 'cli-table3'
import { print, printable, printableJson } from '../command.ts'

export type Row = readonly unknown[]

const BLANK = {
  ...{ top: '', 'top-mid': '', 'top-left': '', 'top-right': '', bottom: '', 'bottom-mid': '' },
  ...{ 'bottom-left': '', 'bottom-right': '', left: '', 'left-mid': '', mid: '', 'mid-mid': '' },
  ...{ right: '', 'right-mid': '', middle: '  ' },
}
/** A longer value, such as an error's message, would make every line of the table wrap. */
const MAX_CELL = 60

/**
 * Prints lines as they come, no faster than their reader takes them. When it has gone, such as `head`, no more are
 * printed, and `gone` is aborted.
 */
export async function printEach(
  lines: AsyncIterable<string>,
  gone = new AbortController(),
): Promise<void> {
  const onError = () => gone.abort()
  stdout.once('error', onError)
  try {
    for await (const line of lines) {
      print(line)
      if (stdout.writableNeedDrain) await once(stdout, 'drain', gone)
      if (gone.signal.aborted) return
    }
  } catch (error) {
    if (!gone.signal.aborted) throw error
  } finally {
    stdout.off('error', onError)
  }
}

/** One JSON document in a line. */
export function documentOf(thing: unknown): string {
  return printableJson(JSON.stringify(thing))
}

/** `head` null: a table of members, whose values are not cut. */
export function printTable(head: readonly string[] | null, rows: readonly Row[]): void {
  if (head !== null && rows.length === 0) {
    console.error('Nothing found.')
    return
  }
  const style = { head: [], border: [], 'padding-left': 0, 'padding-right': 0 }
  const table = new Table({
    chars: BLANK,
    style,
    ...(head && { head: head.map((title) => title.toUpperCase()) }),
  })
  const most = head === null ? Number.POSITIVE_INFINITY : MAX_CELL
  for (const row of rows) table.push(row.map((value) => cell(value, most)))
  print(table.toString().replace(/ +$/gm, ''))
}

/** Clients choose what jobs contain: control characters would move the cursor. */
function cell(value: unknown, most: number): string {
  const text = printable(textOf(value))
  return text.length > most ? `${text.slice(0, most - 1)}…` : text
}

function textOf(value: unknown): string {
  if (value === null || value === undefined) return '-'
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) {
    return value.join(', ')
  }
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}
