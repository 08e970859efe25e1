/** What of a filter indexes and kept counts answer, and what is left to be compared job by job. */
import { JOB_STATES, type JobState } from '../job.ts'
import { ALWAYS, envelopeNeedle, isOpen, type JobFilter, type TypePattern } from './filter.ts'

const ENDED: readonly JobState[] = ['completed', 'cancelled', 'discarded']
const DUE: readonly JobState[] = ['scheduled', 'retryable']

/** Whether the filter has a condition that finds few jobs by an index of its own. */
export function hasOwnIndex({ ids, workflowId, cron, errorCode }: JobFilter): boolean {
  return ids.length > 0 || workflowId !== null || cron !== null || errorCode !== null
}

/** Whether the code of the error is compared job by job, since another condition finds the jobs. */
export function comparesCode({ ids, workflowId, cron, errorCode }: JobFilter): boolean {
  return errorCode !== null && (ids.length > 0 || workflowId !== null || cron !== null)
}

/** Whether a job with the wanted code of its error, and time of creation, may yet fail the filter. */
export function needsMoreThanCode(filter: JobFilter): boolean {
  const { states, queues, types } = filter
  return [states, queues, types].some(isNamed) || needsRow({ ...filter, errorCode: null })
}

/** Whether a dead letter of a wanted queue, and time of its end, may yet fail the filter. */
export function needsMoreThanDeath(filter: JobFilter): boolean {
  const { types, created } = filter
  const other = { ...filter, ended: ALWAYS, isDeadLetter: false }
  return types.length > 0 || !isOpen(created) || needsRow(other)
}

function isNamed(list: readonly unknown[]): boolean {
  return list.length > 0
}

/** Whether a job of a wanted state, queue and type, and time of creation, may yet fail the filter. */
export function needsRow(filter: JobFilter): boolean {
  const { workerId, priority, isDeadLetter, isHeld, enqueued, ended, text } = filter
  return (
    hasOwnIndex(filter) ||
    priority !== null ||
    isDeadLetter ||
    isHeld != null ||
    workerId !== null ||
    !isOpen(enqueued) ||
    !isOpen(ended) ||
    text.tags.length > 0 ||
    text.errorType !== null ||
    text.errorPattern !== null ||
    envelopeNeedle(text) !== null
  )
}

/** Whether the kept counts say how many jobs match. */
export function isCounted(filter: JobFilter): boolean {
  return !needsRow(filter) && filter.types.length === 0 && isOpen(filter.created)
}

/** Whether the number of matches is that of dead letters, which are counted too. */
export function isCountOfDead(filter: JobFilter): boolean {
  const { isDeadLetter, states, types, created } = filter
  if (!isDeadLetter || types.length > 0 || !isOpen(created)) return false
  if (states.length > 0 && !states.includes('discarded')) return false
  return !needsRow({ ...filter, isDeadLetter: false })
}

/** Whether only scheduled and retryable jobs can match, and no condition finds them better than their due time. */
export function isOfDueJobs(filter: JobFilter): boolean {
  const { states, types } = filter
  const isDue = states.length > 0 && states.every((state) => DUE.includes(state))
  return isDue && types.length === 0 && !hasOwnIndex(filter)
}

/** An empty list: all. */
export function statesOf(states: readonly JobState[]): Set<JobState> {
  return new Set(states.length > 0 ? states : JOB_STATES)
}

/** The states that a job of the filter can be in. */
export function wantedStates({ states, ended, isHeld, isDeadLetter }: JobFilter): JobState[] {
  const all = [...statesOf(states)]
  if (isDeadLetter) return all.filter((state) => state === 'discarded')
  if (isHeld) return all.filter((state) => state === 'available')
  return isOpen(ended) ? all : all.filter((state) => ENDED.includes(state))
}

/** The wanted types, each once: those that are named, and what others begin with. No condition: `prefixes` ['']. */
export function wantedTypes(types: readonly TypePattern[]): {
  exact: string[]
  prefixes: string[]
} {
  if (types.length === 0) return { exact: [], prefixes: [''] }
  const prefixes = withoutCovered(types)
  const named = new Set(types.filter(({ isPrefix }) => !isPrefix).map(({ text }) => text))
  const exact = [...named].filter((text) => !prefixes.some((prefix) => text.startsWith(prefix)))
  return { exact, prefixes }
}

/** The prefixes without those that begin with another. */
function withoutCovered(types: readonly TypePattern[]): string[] {
  const all = types.filter(({ isPrefix }) => isPrefix).map(({ text }) => text)
  return [...new Set(all)].filter(
    (text) => !all.some((other) => other !== text && text.startsWith(other)),
  )
}
