/** Commands on one job, on some by their ids, or on all of a filter, with a progress bar. */
import process from 'node:process'
import { SingleBar } from 'cli-progress'
import type { Command } from 'commander'
import {
  type BulkOperation,
  type BulkOptions,
  type BulkProgress,
  type JobFilter,
  OJSNotFoundError,
} from '../../sdk/index.ts'
import { complain, print } from '../command.ts'
import { EXIT, Mistake } from './exit-codes.ts'
import { count, type FilterOptions, filterOf, withFilters } from './filters.ts'
import { printTable } from './output.ts'
import type { Session } from './session.ts'

export interface ManyOptions extends FilterOptions {
  dryRun?: boolean
  yes?: boolean
  limit?: number
  detach?: boolean
}

/** Options of a command that acts on many jobs. */
export function withMany(command: Command): Command {
  return withFilters(command)
    .option('--dry-run', 'change nothing, and say how many jobs match')
    .option('--yes', 'act on all jobs of the filter')
    .option('--limit <number>', 'at most so many jobs', count)
    .option('--detach', 'do not wait for the end')
}

/** What a command does to one job, to some, and to all of a filter. */
export interface Acts {
  one(id: string): Promise<unknown>
  some(ids: readonly string[], options: BulkOptions): Promise<BulkOperation>
  all(filter: JobFilter, options: BulkOptions): Promise<BulkOperation>
}

export async function actOnMany(
  session: Session,
  ids: readonly string[],
  options: ManyOptions,
  acts: Acts,
): Promise<number> {
  const filter = filterOf(options)
  requireOneWay(ids, filter)
  const { dryRun, limit, yes } = options
  const [only] = ids
  if (only !== undefined && ids.length === 1 && !dryRun) {
    const job = await acts.one(only)
    return session.isJson ? session.show({ ...(job as object) }) : told(`${only}: done`)
  }
  if (ids.length === 0 && !dryRun && !yes) {
    throw new Mistake('Add --dry-run to see how many jobs match, or --yes to act on all of them.')
  }
  const how = { limit, ...(dryRun ? { dryRun } : { confirm: true }) }
  const operation = await (ids.length > 0 ? acts.some(ids, how) : acts.all(filter, how))
  if (dryRun) return showPreview(session, operation.progress)
  if (options.detach) return session.show({ operation: operation.id, ...operation.progress })
  return showEnd(session, await watched(operation))
}

function requireOneWay(ids: readonly string[], filter: JobFilter): void {
  const isFilter = Object.keys(filter).length > 0
  if (ids.length > 0 && isFilter) throw new Mistake('Give ids or a filter, not both.')
  if (ids.length === 0 && !isFilter) throw new Mistake('Give the ids of jobs, or a filter.')
}

/** Nothing is drawn where nobody looks: the bar is for a terminal only. */
async function watched(operation: BulkOperation): Promise<BulkProgress> {
  if (operation.id === null) return operation.progress
  const format = '{bar} {percentage} % | {value}/{total} jobs | {eta_formatted}'
  const bar = new SingleBar({ format, hideCursor: true, clearOnComplete: true })
  const { expected = operation.progress.matched } = operation.progress
  const goesOn = () => {
    bar.stop()
    complain(
      `the operation goes on in the server; how far it is: ojs-rabbitmq operations show ${operation.id}`,
    )
  }
  const unwatch = beforeSignal(goesOn)
  bar.start(Math.max(1, expected), 0)
  try {
    for await (const { matched } of operation) {
      bar.setTotal(Math.max(1, expected, matched))
      bar.update(matched)
    }
  } catch (error) {
    if (!(error instanceof OJSNotFoundError)) goesOn()
    throw error
  } finally {
    bar.stop()
    unwatch()
  }
  return operation.progress
}

/** Calls `before` when one of these signals comes, which then ends the process as it ends others. Returns the undoing. */
function beforeSignal(before: () => void): () => void {
  const signals = ['SIGINT', 'SIGTERM'] as const
  const onSignal = (signal: NodeJS.Signals) => {
    before()
    undo()
    process.kill(process.pid, signal)
  }
  const undo = () => {
    for (const signal of signals) process.off(signal, onSignal)
  }
  for (const signal of signals) process.on(signal, onSignal)
  return undo
}

function showPreview(session: Session, progress: BulkProgress): number {
  if (session.isJson) return session.show(progress)
  const { matched, matched_is_lower_bound: isBound, states = [], sample = [] } = progress
  print(`${isBound ? 'more than ' : ''}${matched} jobs match (${states.join(', ')})`)
  for (const id of sample) print(`  ${id}`)
  return EXIT.done
}

function showEnd(session: Session, progress: BulkProgress): number {
  const { state, succeeded, failed, errors = [], has_more: isMore } = progress
  if (session.isJson) session.show(progress)
  else {
    print(`${state}: ${succeeded} done, ${failed} left alone${isMore ? ', more match' : ''}`)
    const rows = errors.map(({ job_id: id, error }) => [id, error])
    if (rows.length > 0) printTable(['job', 'why not'], rows)
  }
  return state === 'completed' && failed === 0 ? EXIT.done : EXIT.partly
}

function told(line: string): number {
  print(line)
  return EXIT.done
}
