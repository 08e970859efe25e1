/** `ojs-rabbitmq queues`: counts, pause and resume, purge. */
import { Mistake } from './exit-codes.ts'
import type { Group } from './group.ts'
import { print } from './output.ts'
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
          run(async (session, _, name) => session.show(await session.client.queues[verb](name))),
        )
    }
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
          const { matched, purged_count: purged, has_more: isMore } = answer
          if (dryRun) print(`${matched} jobs match`)
          else print(`${purged} jobs removed${isMore ? ', more match: repeat the command' : ''}`)
          return 0
        }),
      )
  },
}
