/** Jobs that failed, grouped by what their last errors have in common. */
import type { JobState } from '../../job/job.ts'
import { type ErrorKind, errorKindOf } from '../../job/search/error-pattern.ts'
import type { JobFilter } from '../../job/search/filter.ts'
import type { FoundJob, PageEnd } from '../../ledger/search.ts'
import type { Deps, RequestContext } from '../deps.ts'
import { ownQueues } from './search.ts'

/** Jobs that one request looks at, the newest of them: some 0.2 s of CPU, in slices. */
const MOST_LOOKED_AT = 10_000
const PAGE = 250
const MOST_GROUPS = 100
const HOUR_MS = 3_600_000
const TREND_HOURS = 24

export interface FailureGroup extends ErrorKind {
  count: number
  types: ReadonlyMap<string, number>
  queues: ReadonlyMap<string, number>
  states: ReadonlyMap<string, number>
  /** When the first and the last of its jobs failed. */
  firstAt: number
  lastAt: number
  /** How many failed in each of the last 24 hours, the current one last. */
  trend: readonly number[]
  /** The newest job of it, and what its error says. */
  jobId: string
  message: string
}

export interface FailureGroups {
  /** The hundred largest, the largest first. */
  groups: readonly FailureGroup[]
  /** How many groups there are. */
  total: number
  searched: number
  /** There are failed jobs that it has not looked at. */
  isPartial: boolean
}

const FAILED: readonly JobState[] = ['retryable', 'discarded']

/**
 * The groups of the jobs that match, `retryable` and `discarded` ones unless the filter names states. Throws
 * 403 for a queue that the caller's key is not for.
 */
export async function failureGroups(
  { ledger, clock }: Pick<Deps, 'ledger' | 'clock'>,
  filter: JobFilter,
  context: RequestContext,
): Promise<FailureGroups> {
  const queues = ownQueues(ledger, filter, context)
  if (queues === null) return { groups: [], total: 0, searched: 0, isPartial: false }
  const states = filter.states.length > 0 ? filter.states : FAILED
  const groups = new Map<string, Group>()
  const now = clock.now()
  let searched = 0
  let after: PageEnd | null = null
  let isCut = false
  do {
    const page = { order: 'created_at', isAscending: false, after, offset: 0 } as const
    const found: Found = await ledger.read.search.page(
      { ...filter, states, queues },
      { ...page, limit: PAGE, isWhole: false },
    )
    for (const job of found.jobs) add(groups, job, now)
    searched += found.jobs.length
    isCut = found.searched !== null
    after = found.next
  } while (after !== null && searched < MOST_LOOKED_AT)
  const all = [...groups.values()].sort((a, b) => b.count - a.count || b.lastAt - a.lastAt)
  const isPartial = after !== null || isCut
  return { groups: all.slice(0, MOST_GROUPS), total: all.length, searched, isPartial }
}

type Found = Awaited<ReturnType<Deps['ledger']['read']['search']['page']>>

interface Group extends FailureGroup {
  types: Map<string, number>
  queues: Map<string, number>
  states: Map<string, number>
  trend: number[]
}

function add(groups: Map<string, Group>, job: FoundJob, now: number): void {
  if (job.error === null) return
  const kind = errorKindOf(job.error)
  const key = JSON.stringify([kind.code ?? kind.type, kind.pattern])
  const at = failedAt(job)
  const group = groups.get(key) ?? newGroup(kind, job, at)
  groups.set(key, group)
  group.count += 1
  countIn(group.types, job.type)
  countIn(group.queues, job.queue)
  countIn(group.states, job.state)
  group.firstAt = Math.min(group.firstAt, at)
  group.lastAt = Math.max(group.lastAt, at)
  const hour = TREND_HOURS - 1 - Math.floor((now - at) / HOUR_MS)
  if (hour >= 0 && hour < TREND_HOURS) group.trend[hour] = (group.trend[hour] ?? 0) + 1
}

function newGroup(kind: ReturnType<typeof errorKindOf>, job: FoundJob, at: number): Group {
  return {
    ...kind,
    count: 0,
    types: new Map(),
    queues: new Map(),
    states: new Map(),
    firstAt: at,
    lastAt: at,
    trend: new Array<number>(TREND_HOURS).fill(0),
    jobId: job.id,
  }
}

/** A retry has no time of its failure in its short columns: the attempt began then. */
function failedAt({ discardedAt, startedAt, createdAt }: FoundJob): number {
  return discardedAt ?? startedAt ?? createdAt
}

function countIn(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1)
}
