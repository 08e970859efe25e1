/** The rows of a page that was found. */
import { type Carry, standingOf } from '../../../job/job.ts'
import type { JobFilter } from '../../../job/search/filter.ts'
import type { KeptRow, Texts } from '../../../job/transitions/row.ts'
import { isMet } from '../../lists/comparing.ts'
import { MAX_LISTED_TEXT } from '../../lists/limits.ts'
import type { Found, FoundJob, SearchPage } from '../../search.ts'
import { jobsOf, ROW } from '../group/columns.ts'
import { workflowOf } from '../group/workflows.ts'
import { byId, sizesOf } from './comparison.ts'
import type { FoundKey } from './key-list.ts'
import type { Searched } from './sources.ts'

/** Rows of one statement. */
const PART = 256

/** The page of these keys, of which the one behind the page's limit says that there are more. */
export async function foundPage(
  searched: Searched,
  filter: JobFilter,
  keys: readonly FoundKey[],
  { limit, isWhole }: SearchPage,
): Promise<Pick<Found, 'jobs' | 'next'>> {
  const shown = isWhole ? await fitting(searched, keys.slice(0, limit)) : keys.slice(0, limit)
  const jobs: FoundJob[] = []
  for (let i = 0; i < shown.length; i += PART)
    jobs.push(...(await foundJobs(searched, filter, shown.slice(i, i + PART), isWhole)))
  const last = shown.at(-1)
  const isMore = limit > 0 && shown.length < keys.length
  return { jobs, next: isMore && last ? [last.at, last.seq] : null }
}

/** As many as may be in memory at once, at least one. */
async function fitting(searched: Searched, keys: readonly FoundKey[]): Promise<FoundKey[]> {
  const ids = keys.map(({ id }) => id)
  const sizes = new Map((await sizesOf(searched, ids, true)).map(({ id, bytes }) => [id, bytes]))
  let bytes = 0
  return keys.filter(({ id }) => {
    const isFitting = bytes < MAX_LISTED_TEXT
    bytes += sizes.get(id) ?? 0
    return isFitting
  })
}

type RawFound = KeptRow & Omit<Texts, 'carry'> & { carry: string | null; workflowId: string | null }

async function foundJobs(
  { asks, schema }: Searched,
  filter: JobFilter,
  keys: readonly FoundKey[],
  isWhole: boolean,
): Promise<FoundJob[]> {
  const whole = isWhole ? ', b.errors, b.result, b.envelope' : ''
  const text = byId(`SELECT ${ROW}, b.carry, b.error,
      ${workflowOf('j.step')} AS "workflowId" ${whole}
    FROM ${schema}.jobs j JOIN ${schema}.job_bodies b ON b.id = j.id WHERE j.id = w.id`)
  const rows = await asks.rows(text, [keys.map(({ id }) => id)])
  // They may have changed since the search passed them.
  const found = (rows as readonly unknown[] as RawFound[]).filter((row) =>
    isMet(filter, { ...row, envelope: null }),
  )
  return found.map((row) => foundJob(row, isWhole))
}

function foundJob(found: RawFound, isWhole: boolean): FoundJob {
  const { workflowId, carry, error } = found
  const shown = carry === null ? null : (JSON.parse(carry) as Carry)
  const [whole = null] = isWhole ? jobsOf([found]) : []
  return Object.assign(standingOf(found), { carry: shown, error, workflowId, whole })
}
