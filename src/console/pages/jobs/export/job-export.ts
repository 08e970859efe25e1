/** The file of an export as it grows, page by page; it stops and goes on. */
import { type Answer, call } from '../../../api/client.ts'
import type { JobItem } from '../../../api/openapi.ts'
import type { Filters } from '../../../search/query.ts'
import { CSV_HEAD, csvLine } from './csv.ts'

export const FORMATS = ['jsonl', 'csv'] as const
export type Format = (typeof FORMATS)[number]

export interface ExportWhat {
  format: Format
  /** Empty: all that match. */
  ids: readonly string[]
  filters: Filters
  isWithPayload: boolean
}

/** The most that one request gives, or takes as ids. */
const PAGE = 100
const TYPES: Readonly<Record<Format, string>> = { jsonl: 'application/jsonl', csv: 'text/csv' }

/**
 * A page is in the heap until it is written to a `Blob`, which browsers keep outside of it, and on disk when
 * there are many.
 */
export class JobExport {
  count = 0
  /** How many there will be; `isMore`: at least. */
  total: { count: number; isMore: boolean } | undefined
  readonly #what: ExportWhat
  /** The searches that are left; the first of them from `#cursor` on. */
  #left: readonly Filters[]
  #cursor = ''
  #parts: Blob[]

  constructor(what: ExportWhat) {
    this.#what = what
    this.#left = searchesOf(what)
    this.#parts = what.format === 'csv' ? [new Blob([CSV_HEAD])] : []
    if (what.ids.length > 0) this.total = { count: what.ids.length, isMore: false }
  }

  get isDone(): boolean {
    return this.#left.length === 0
  }

  /** What there is of it. */
  get file(): Blob {
    return new Blob(this.#parts, { type: TYPES[this.#what.format] })
  }

  /** Reads until all is there. Throws `ApiError` or the signal's reason, and may go on after that. */
  async run(signal: AbortSignal, onPage: () => void): Promise<void> {
    for (let [filters] = this.#left; filters !== undefined; [filters] = this.#left) {
      this.#add(await this.#page(filters, signal))
      onPage()
    }
  }

  async #page(filters: Filters, signal: AbortSignal): Promise<Page> {
    const cursor = this.#cursor === '' ? {} : { cursor: this.#cursor }
    const include = this.#what.isWithPayload ? { include: 'args,meta' } : {}
    const query = { limit: PAGE, ...cursor, ...include }
    return await call('GET /ojs/v1/admin/jobs', { query, filters, signal })
  }

  #add({ items, pagination }: Page): void {
    const { total, total_is_lower_bound: isBound, search_is_partial: isPart } = pagination
    this.total ??= { count: total, isMore: isBound === true || isPart === true }
    this.#cursor = pagination.next_cursor ?? ''
    if (this.#cursor === '') this.#left = this.#left.slice(1)
    const lineOf = this.#what.format === 'csv' ? csvLine : jsonLine
    this.#parts.push(new Blob(items.map(lineOf)))
    this.count += items.length
    // A million jobs are ten thousand pages.
    if (this.#parts.length >= PAGE) this.#parts = [new Blob(this.#parts)]
  }
}

type Page = Answer<'GET /ojs/v1/admin/jobs'>

function searchesOf({ ids, filters }: ExportWhat): Filters[] {
  if (ids.length === 0) return [filters]
  const searches: Filters[] = []
  for (let at = 0; at < ids.length; at += PAGE) {
    searches.push({ id: ids.slice(at, at + PAGE).join() })
  }
  return searches
}

function jsonLine(job: JobItem): string {
  return `${JSON.stringify(job)}\n`
}
