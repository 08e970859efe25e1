/** `ojs-rabbitmq queues`: counts, pause, drain and resume, configuration, purge, delete. */
import type { Command } from 'commander'
import { print } from '../command.ts'
import { Mistake } from './exit-codes.ts'
import { integer, jsonObject } from './filters.ts'
import type { Group, Run } from './group.ts'
import { MOST, segment } from './session.ts'

const COLUMNS = [
  ...['name', 'state', 'counts.available', 'counts.active', 'counts.scheduled'],
  ...['counts.retryable', 'counts.discarded', 'oldest_available_age_seconds'],
]

interface PurgeOptions {
  state?: string
  olderThan?: string
  dryRun?: boolean
  yes?: boolean
}

export const queuesGroup: Group = {
  build(group, run) {
    group
      .command('list')
      .description('list the queues with their counts')
      .action(
        run((session) => session.list(session.items('/admin/queues', 'items', MOST), COLUMNS)),
      )
    group
      .command('show <name>')
      .description('show a queue')
      .action(
        run(async (session, _, name) =>
          session.show(await session.ask('GET', `/admin/queues/${segment(name)}`)),
        ),
      )
    for (const verb of ['pause', 'resume'] as const) {
      group
        .command(`${verb} <name>`)
        .description(verb === 'pause' ? 'hand out no jobs, and take none' : 'go on')
        .action(
          run(async (session, _, name) =>
            session.show(await session.ask('POST', `/admin/queues/${segment(name)}/${verb}`, {})),
          ),
        )
    }
    group
      .command('drain <name>')
      .description('take no new jobs, and work off what is there; resume ends it')
      .action(
        run(async (session, _, name) =>
          session.show(await session.ask('POST', `/admin/queues/${segment(name)}/drain`, {})),
        ),
      )
    configuring(group, run)
    group
      .command('delete <name>')
      .description('delete a queue without jobs, dead letters and consumers')
      .option('--yes', 'delete it')
      .action(
        run(async (session, { yes }: { yes?: boolean }, name) => {
          if (!yes) throw new Mistake('Add --yes to delete the queue.')
          return session.show(await session.ask('DELETE', `/queues/${segment(name)}`))
        }),
      )
    purging(group, run)
  },
}

interface ConfigOptions {
  maxSize?: number
  maxSizeBytes?: number
  defaultRetry?: Record<string, unknown>
  unset?: string
}

/** Members of the configuration by their option. */
const MEMBERS = {
  maxSize: 'max_size',
  maxSizeBytes: 'max_size_bytes',
  defaultRetry: 'default_retry',
} as const

function configuring(group: Command, run: Run): void {
  group
    .command('config <name>')
    .description('show what is set for a queue, or change it')
    .option('--max-size <number>', 'most messages that wait in RabbitMQ', integer)
    .option('--max-size-bytes <number>', 'most bytes that wait in RabbitMQ', integer)
    .option('--default-retry <json>', 'the retry policy of jobs that name none', jsonObject)
    .option('--unset <members>', 'several with commas, e.g. max_size')
    .action(
      run(async (session, options: ConfigOptions, name) => {
        const change = changeOf(options)
        const path = `/admin/queues/${segment(name)}`
        const queue =
          Object.keys(change).length === 0
            ? await session.ask('GET', path)
            : await session.ask('PUT', `${path}/config`, change)
        return session.show((queue['configuration'] ?? {}) as object)
      }),
    )
}

function changeOf(options: ConfigOptions): Record<string, unknown> {
  const change: Record<string, unknown> = {}
  for (const member of options.unset?.split(',') ?? []) change[member] = null
  for (const option of ['maxSize', 'maxSizeBytes', 'defaultRetry'] as const) {
    const value = options[option]
    if (value !== undefined) change[MEMBERS[option]] = value
  }
  return change
}

function purging(group: Command, run: Run): void {
  group
    .command('purge <name>')
    .description('remove jobs by state and age')
    .requiredOption('--state <states>', 'several with commas')
    .option('--older-than <time>', 'a time, or e.g. 24h for so long ago')
    .option('--dry-run', 'change nothing, and say how many jobs match')
    .option('--yes', 'remove them')
    .action(
      run(async (session, { state, olderThan, dryRun, yes }: PurgeOptions, name) => {
        if (!dryRun && !yes) throw new Mistake('Add --dry-run to count the jobs, or --yes.')
        const query = new URLSearchParams({
          states: state ?? '',
          ...(olderThan !== undefined && { older_than: olderThan }),
          ...(dryRun ? { dry_run: 'true' } : { confirm: 'true' }),
        })
        const path = `/admin/queues/${segment(name)}/jobs?${query}`
        const answer = await session.ask('DELETE', path)
        if (session.isJson) return session.show(answer)
        const { matched, purged_count: purged, kept_for_workflows: kept, has_more: isMore } = answer
        if (dryRun) print(`${matched} jobs match`)
        else {
          const stay = kept ? `, ${kept} steps stay with their workflows` : ''
          print(`${purged} jobs removed${stay}${isMore ? ', more match: repeat the command' : ''}`)
        }
        return 0
      }),
    )
}
