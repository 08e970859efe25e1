/** Which ranges of which index hold the jobs of a filter, and what they leave to be compared. */
import type { JobState } from '../../../job/job.ts'
import { isOpen, type JobFilter, type TypePattern } from '../../../job/search/filter.ts'
import {
  isOfDueJobs,
  needsMoreThanCode,
  needsMoreThanDeath,
  needsRow,
  statesOf,
  wantedStates,
  wantedTypes,
} from '../../../job/search/needs.ts'
import { MAX_COMPARED_AT_ONCE, MAX_FEW_DUE, MAX_RANGES } from '../../lists/limits.ts'
import {
  createdBetween,
  type Direction,
  endedBetween,
  type Key,
  type Limits,
  NO_LIMITS,
  orderOf,
  startOf,
} from '../../lists/order.ts'
import type { List } from '../../lists/page-keys.ts'
import type { Flag } from '../sql/driver.ts'
import type { StateCounter } from '../state/state-counter.ts'
import type { Store } from '../state/store.ts'
import { Merge, type ReadRange } from './merge.ts'

const FLAGS: readonly Flag[] = [0, 1]

/** One range of `jobs_search`. */
export type SearchRange = [queue: string, state: JobState, type: string, isLate: Flag]

/** A list in the order of a column. */
export interface Source extends List {
  merge: Pick<Merge, 'next'>
  /** True: each of its rows must be compared with the whole filter. */
  isRough: boolean
}

/** Opens the list of the rows that may match, in the order of `created_at`. Pauses between its steps. */
export function* byCreation(
  store: Store,
  filter: JobFilter,
  direction: Direction,
): Generator<void, Source> {
  const limits = createdBetween(filter)
  const merge = new Merge(startOf(direction, limits), orderOf(direction))
  const source = { merge, isRough: true, isCut: false }
  const { statements } = store
  const { searchCronDown, searchCronUp, searchErrorDown, searchErrorUp } = statements
  const { searchLoneErrorDown, searchLoneErrorUp } = statements
  if (filter.ids.length > 0 || filter.workflowId !== null) {
    merge.add(listed(keysOf(store, filter), direction, limits))
    return source
  }
  if (filter.cron !== null) {
    const entry = statements.cronFind.get(filter.cron)
    if (entry) merge.add(ranged(searchCronDown, searchCronUp, [entry.seq], direction, limits))
    return source
  }
  if (filter.errorCode !== null) {
    const beginning = `{"code":${JSON.stringify(filter.errorCode)}`
    merge.add(ranged(searchErrorDown, searchErrorUp, [beginning], direction, limits))
    const whole = `${beginning}}`
    merge.add(ranged(searchLoneErrorDown, searchLoneErrorUp, [whole], direction, limits))
    return { ...source, isRough: needsMoreThanCode(filter) }
  }
  const ended = isOpen(filter.ended) ? null : yield* fewEnded(store, filter)
  if (ended !== null) {
    merge.add(listed(ended, direction, limits))
    return source
  }
  const isCut = yield* rangesOf(store, filter, (range) => {
    const { searchDown, searchUp } = statements
    merge.add(ranged(searchDown, searchUp, range, direction, limits))
  })
  return { merge, isRough: needsRow(filter), isCut }
}

/**
 * The jobs that have ended within the time of the filter; they may fail its other conditions. Null: they are more
 * than a page looks at.
 */
function* fewEnded(store: Store, filter: JobFilter): Generator<void, Key[] | null> {
  const { countEnded, endedKeys, countStrays, strayKeys } = store.statements
  const { from, until } = endedBetween(filter)
  const queues = wantedQueues(store, filter)
  const lists = wantedStates(filter).flatMap((state) =>
    FLAGS.map((isDead) => [state, isDead, from, until] as const),
  )
  let room = MAX_COMPARED_AT_ONCE
  for (const list of lists) {
    room -= countEnded.get(...list, room + 1)?.count ?? 0
    if (room < 0) return null
  }
  for (const queue of queues) {
    room -= countStrays.get(queue, room + 1)?.count ?? 0
    if (room < 0) return null
    yield
  }
  const keys: Key[] = []
  for (const list of lists) {
    keys.push(...endedKeys.all(...list))
    yield
  }
  for (const queue of queues) {
    keys.push(...strayKeys.all(queue, from, until))
    yield
  }
  return unique(keys)
}

/** The list of scheduled and retryable jobs in the order of their due times; null if others may match too. */
export function byDueTime(store: Store, filter: JobFilter, direction: Direction): Source | null {
  const { states, queues } = filter
  const isFew = queues.length > 0 && countOf(store, states, queues) <= MAX_FEW_DUE
  if (isFew || !isOfDueJobs(filter)) return null
  const limits = NO_LIMITS
  const merge = new Merge(startOf(direction, limits), orderOf(direction))
  const { searchDueDown, searchDueUp } = store.statements
  for (const state of states) {
    merge.add(ranged(searchDueDown, searchDueUp, [state], direction, limits))
  }
  return { merge, isRough: true, isCut: false }
}

/** The list of dead letters in the order of their ends. Conditions with an index of their own are not for it. */
export function byDeath(store: Store, filter: JobFilter, direction: Direction): Source {
  const { queues } = filter
  const limits = endedBetween(filter)
  const merge = new Merge(startOf(direction, limits), orderOf(direction))
  const { searchDeadDown, searchDeadUp, searchDeadInDown, searchDeadInUp } = store.statements
  for (const queue of new Set(queues)) {
    merge.add(ranged(searchDeadInDown, searchDeadInUp, [queue], direction, limits))
  }
  if (queues.length === 0) merge.add(ranged(searchDeadDown, searchDeadUp, [], direction, limits))
  const isRough = needsMoreThanDeath(filter)
  return { merge, isRough, isCut: false }
}

/** How many dead letters these queues have; an empty list: all. */
export function deadIn({ counter }: Store, queues: readonly string[]): number {
  if (queues.length === 0) return counter.deadLetters(null)
  return [...new Set(queues)].reduce((sum, queue) => sum + counter.deadLetters(queue), 0)
}

/** How many jobs of these states and queues there are; an empty list: all. */
export function countOf(
  { counter }: Store,
  states: readonly JobState[],
  queues: readonly string[],
): number {
  let count = 0
  for (const queue of namesOf(counter, queues)) {
    const counts = counter.of(queue)
    for (const state of statesOf(states)) count += counts[state]
  }
  return count
}

/**
 * Names every range of `jobs_search` that has jobs of the filter. Queues and states without jobs are known by
 * their counts; types are found one after the other. True: there are more ranges than it has named.
 */
export function* rangesOf(
  store: Store,
  filter: JobFilter,
  add: (range: SearchRange) => void,
): Generator<void, boolean> {
  const { counter } = store
  const wanted = wantedStates(filter)
  let count = 0
  for (const queue of wantedQueues(store, filter)) {
    const counts = counter.of(queue)
    for (const state of wanted) {
      if (counts[state] === 0) continue
      for (const type of typesIn(store, queue, state, filter.types)) {
        if (count >= MAX_RANGES) return true
        for (const isLate of FLAGS) add([queue, state, type, isLate])
        count += 2
        yield
      }
    }
  }
  return false
}

/** An empty list: all that have jobs. The ended ones of a queue that was forgotten stay for their retention. */
function namesOf(counter: StateCounter, queues: readonly string[]): Set<string> {
  return new Set(queues.length > 0 ? queues : counter.queues())
}

function wantedQueues({ counter }: Store, { queues, isHeld }: JobFilter): Iterable<string> {
  const names = namesOf(counter, queues)
  return isHeld ? [...names].filter((name) => counter.held(name) > 0) : names
}

/** The types of the filter that a queue has jobs of, by seeks in the index. */
export function* typesIn(
  { statements }: Store,
  queue: string,
  state: JobState,
  wanted: readonly TypePattern[],
): Generator<string> {
  const { exact, prefixes } = wantedTypes(wanted)
  yield* exact
  for (const text of prefixes) {
    let found = statements.typeFrom.get(queue, state, text)
    while (found?.type.startsWith(text)) {
      yield found.type
      found = statements.typeAfter.get(queue, state, found.type)
    }
  }
}

function keysOf(store: Store, filter: JobFilter): Key[] {
  const { statements } = store
  const { ids, workflowId, cron } = filter
  const own = ids.map((id) => statements.seqOfId.get(id)).filter((key) => key !== undefined)
  const keys = workflowId === null ? own : stepsOf(store, workflowId, ids.length > 0 ? own : null)
  if (cron === null) return unique(keys)
  const entry = statements.cronFind.get(cron)
  if (entry === undefined) return []
  return unique(keys.filter(({ seq }) => statements.isOfCron.get(seq, entry.seq) !== undefined))
}

/** `among`: only these; null: all. */
function stepsOf({ statements }: Store, workflowId: string, among: readonly Key[] | null): Key[] {
  const steps = statements.seqsOfWorkflow.all(workflowId)
  if (among === null) return steps
  const seqs = new Set(among.map(({ seq }) => seq))
  return steps.filter(({ seq }) => seqs.has(seq))
}

function unique(keys: readonly Key[]): Key[] {
  return [...new Map(keys.map((key) => [key.seq, key])).values()]
}

type RangeStatement<P extends readonly unknown[]> = {
  all(...values: [...P, from: number, at: number, seq: number, limit: number]): Key[]
}

function ranged<P extends readonly unknown[]>(
  down: RangeStatement<P>,
  up: RangeStatement<P>,
  of: P,
  { isAscending }: Direction,
  { from, until }: Limits,
): ReadRange {
  const [statement, end] = isAscending ? [up, until] : [down, from]
  return ({ at, seq }, limit) => statement.all(...of, end, at, seq, limit)
}

/** A range of keys that are in memory. */
function listed(keys: readonly Key[], direction: Direction, { from, until }: Limits): ReadRange {
  const isBefore = orderOf(direction)
  const inRange = keys.filter(({ at }) => at >= from && at < until)
  inRange.sort((a, b) => (isBefore(a, b) ? -1 : 1))
  return (after, limit) => {
    const start = inRange.findIndex((key) => isBefore(after, key))
    return start < 0 ? [] : inRange.slice(start, start + limit)
  }
}
