/** `ojs-rabbitmq cron`: recurring jobs. */

import { print } from '../command.ts'
import { jsonObject } from './filters.ts'
import type { Group } from './group.ts'
import { MOST, segment } from './session.ts'

const COLUMNS = ['name', 'cron', 'timezone', 'type', 'status', 'run_count', 'next_run_at']
const RUNS = ['scheduled_at', 'job_id', 'state', 'started_at', 'completed_at', 'reason']

export const cronGroup: Group = {
  build(group, run) {
    group
      .command('list')
      .description('list the entries')
      .action(run((session) => session.list(session.items('/cron', 'cron_jobs', MOST), COLUMNS)))
    group
      .command('show <name>')
      .description('show an entry')
      .action(run(async (session, _, name) => session.show(await session.client.cron.get(name))))
    for (const [verb, summary] of [
      ['pause', 'make no jobs for now'],
      ['resume', 'go on'],
    ] as const) {
      group
        .command(`${verb} <name>`)
        .description(summary)
        .action(
          run(async (session, _, name) => {
            await session.ask('POST', `/cron/${segment(name)}/${verb}`, {})
            return session.show(await session.client.cron.get(name))
          }),
        )
    }
    group
      .command('trigger <name>')
      .description('run an entry now')
      .option('--body <json>', 'members of the request', jsonObject)
      .action(
        run(async (session, { body = {} }: { body?: Record<string, unknown> }, name) => {
          const answer = await session.ask('POST', `/cron/${segment(name)}/trigger`, body)
          if (session.isJson) return session.show(answer)
          print(String(answer['job_id']))
          return 0
        }),
      )
    group
      .command('history <name>')
      .description('list the newest runs of an entry')
      .action(
        run((session, _, name) =>
          session.list(session.items(`/cron/${segment(name)}/history`, 'executions', 100), RUNS),
        ),
      )
    group
      .command('delete <name>')
      .description('delete an entry; its jobs stay')
      .action(run(async (session, _, name) => session.show(await session.client.cron.delete(name))))
  },
}
