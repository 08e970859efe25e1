/** `/admin/failures`: jobs that failed, grouped by their errors. */
import { timestamp } from '../../../job/document.ts'
import {
  type FailureGroup,
  type FailureGroups,
  failureGroups,
} from '../../../operations/search/failure-groups.ts'
import {
  filterDocument,
  parseJobFilter,
  type WrittenFilter,
} from '../../../operations/search/parse-filter.ts'
import { answer } from '../../message/respond.ts'
import { LIST_FAILURES } from '../../openapi/failures.ts'
import type { Endpoint } from '../../route.ts'
import { filterMembers } from '../job-search.ts'
import type { Door } from '../route-deps.ts'

/** An answer serves the same question for so many times its own cost: a twentieth of a core at most. */
const COSTS = 20
const MOST_KEPT = 20
const MOST_MESSAGE = 400

interface Kept {
  until: number
  answer: Promise<string>
}

export function failureRoutes({ deps }: Door): Endpoint[] {
  const kept = new Map<string, Kept>()
  return [
    {
      method: 'GET',
      path: '/ojs/v1/admin/failures',
      about: LIST_FAILURES,
      access: ['operator'],
      scoping: 'own',
      async handle(request, response) {
        const members = filterMembers(request)
        const now = deps.clock.now()
        const filter = parseJobFilter(members, now)
        const { context } = request
        const question = JSON.stringify([members, context.queues])
        const text = await shared(kept, question, async () => {
          const groups = await failureGroups(deps, filter, context)
          return JSON.stringify(documentOf(groups, filterDocument(members, now)))
        })
        answer(response, 200, text)
      },
    },
  ]
}

/** The answer that is still good enough, or a new one. */
async function shared(
  kept: Map<string, Kept>,
  question: string,
  ask: () => Promise<string>,
): Promise<string> {
  const begin = performance.now()
  const known = kept.get(question)
  if (known !== undefined && known.until > begin) return await known.answer
  const mine: Kept = { until: Number.POSITIVE_INFINITY, answer: ask() }
  kept.delete(question)
  kept.set(question, mine)
  for (const oldest of [...kept.keys()].slice(0, -MOST_KEPT)) kept.delete(oldest)
  try {
    return await mine.answer
  } finally {
    const end = performance.now()
    mine.until = end + COSTS * (end - begin)
  }
}

/** `asked`: the filters of the request. */
function documentOf(
  { groups, total, searched, isPartial }: FailureGroups,
  asked: WrittenFilter,
): object {
  return {
    groups: groups.map((group) => groupDocument(group, asked)),
    total,
    searched,
    ...(isPartial && { search_is_partial: true }),
  }
}

function groupDocument(group: FailureGroup, asked: WrittenFilter): object {
  const { code, type, pattern } = group
  return {
    ...(code !== null && { code }),
    ...(type !== null && { type }),
    pattern,
    message: group.message.slice(0, MOST_MESSAGE),
    count: group.count,
    by_type: Object.fromEntries(group.types),
    by_queue: Object.fromEntries(group.queues),
    by_state: Object.fromEntries(group.states),
    first_at: timestamp(group.firstAt),
    last_at: timestamp(group.lastAt),
    trend: group.trend,
    job_id: group.jobId,
    filter: { ...asked, ...filterOf(group) },
  }
}

/** What finds the jobs of the group among those that were asked for. */
function filterOf({ code, type, pattern, states }: FailureGroup): WrittenFilter {
  return {
    state: [...states.keys()].join(),
    ...(code !== null ? { error_code: code } : type !== null && { error_type: type }),
    ...(pattern !== '' && { error_pattern: pattern }),
  }
}
