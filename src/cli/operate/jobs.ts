/** `ojs-rabbitmq jobs`: find jobs, and act on them. */
import type { Command } from 'commander'
import type { Job } from '../../sdk/index.ts'
import { print } from '../command.ts'
import { actOnMany, type ManyOptions, withMany } from './act-on-many.ts'
import {
  count,
  type FilterOptions,
  filterOf,
  integer,
  json,
  jsonObject,
  withFilters,
} from './filters.ts'
import type { Group } from './group.ts'
import { type Session, segment } from './session.ts'

const COLUMNS = ['id', 'type', 'queue', 'state', 'attempt', 'created_at', 'error.message']

interface ListOptions extends FilterOptions {
  limit: number
  sort?: 'created_at'
  order?: 'asc' | 'desc'
}

export const jobsGroup: Group = {
  build(group, run) {
    withFilters(group.command('list'))
      .description('list jobs, the newest first')
      .option('--limit <number>', 'at most so many', count, 50)
      .option('--sort <by>', 'created_at, scheduled_at, priority or updated_at')
      .option('--order <order>', 'asc or desc')
      .action(
        run((session, options: ListOptions) =>
          session.list(found(session, options), COLUMNS, options.limit),
        ),
      )
    group
      .command('show <id>')
      .description('show everything of a job')
      .action(run(async (session, _, id) => session.show(await session.client.jobs.get(id))))
    group
      .command('history <id>')
      .description("list the changes of a job's state")
      .action(
        run((session, _, id) => {
          const columns = [
            'timestamp',
            'event_type',
            'data.from',
            'data.to',
            'data.reason',
            'actor.id',
          ]
          return session.list(session.client.jobs.history(id), columns)
        }),
      )
    acting(group, run, 'cancel', 'cancel jobs that have not ended')
    acting(
      group,
      run,
      'retry',
      'run ended jobs again, of a filter without --state the discarded ones',
    )
    acting(group, run, 'delete', 'delete ended jobs for good')
    group
      .command('prioritize <id>')
      .description('give a job that waits another priority')
      .requiredOption('--priority <number>', '-100 to 100, the highest first', integer)
      .action(
        run(async (session, { priority }: { priority: number }, id) => {
          const path = `/admin/jobs/${segment(id)}`
          const { job } = await session.ask('PATCH', path, { priority })
          if (session.isJson) return session.show(job as object)
          print(`${id}: priority ${priority}`)
          return 0
        }),
      )
    copying(group, run)
  },
}

/** All that match, in pages that have the one after the last that is shown. */
function found({ client }: Session, options: ListOptions): AsyncIterable<Job> {
  const { limit, sort, order } = options
  return client.jobs.list({ ...filterOf(options), sort, order, limit: Math.min(100, limit + 1) })
}

type Build = Group['build']

function acting(
  group: Command,
  run: Parameters<Build>[1],
  verb: 'cancel' | 'retry' | 'delete',
  summary: string,
): void {
  withMany(group.command(`${verb} [ids...]`))
    .description(summary)
    .action(
      run((session, options: ManyOptions, _, ids) => {
        const { jobs, bulk } = session.client
        return actOnMany(session, ids, options, {
          one: (id) => jobs[verb](id),
          some: (all, how) => bulk[verb](all, how),
          all: (filter, how) => bulk[verb](filter, how),
        })
      }),
    )
}

interface CopyOptions {
  args?: unknown
  queue?: string
  override?: Record<string, unknown>
}

function copying(group: Command, run: Parameters<Build>[1]): void {
  group
    .command('copy <id>')
    .description('enqueue a copy of a job, with changes')
    .option('--args <json>', 'its args instead', json)
    .option('--queue <queue>', 'its queue instead')
    .option('--override <json>', 'options instead, e.g. {"priority": 5}', jsonObject)
    .action(
      run(async (session, { args, queue, override }: CopyOptions, id) => {
        const changes = {
          ...override,
          ...(args !== undefined && { args }),
          ...(queue !== undefined && { queue }),
        }
        const job = await session.client.jobs.copy(id, changes)
        if (session.isJson) return session.show(job)
        print(job.id)
        return 0
      }),
    )
}
