/** `ojs-rabbitmq workers`: who works, and directives to them. */
import type { Group } from './group.ts'
import { MOST, segment } from './session.ts'

const COLUMNS = ['id', 'state', 'directive', 'queues', 'active_jobs', 'hostname', 'last_seen_at']

export const workersGroup: Group = {
  build(group, run) {
    group
      .command('list')
      .description('list the workers')
      .action(
        run((session) => session.list(session.items('/admin/workers', 'items', MOST), COLUMNS)),
      )
    group
      .command('show <id>')
      .description('show a worker with its jobs')
      .action(
        run(async (session, _, id) => {
          const answer = await session.ask('GET', `/admin/workers/${segment(id)}`)
          return session.show((answer['worker'] as object | undefined) ?? answer)
        }),
      )
    for (const [verb, summary] of [
      ['quiet', "take no more jobs; '*': all workers"],
      ['terminate', "end when the running jobs have ended; '*': all workers"],
    ] as const) {
      group
        .command(`${verb} <id>`)
        .description(summary)
        .action(run(async (session, _, id) => session.show(await session.client.workers[verb](id))))
    }
    group
      .command('delete <id>')
      .description('forget a stale worker; its jobs go back')
      .action(
        run(async (session, _, id) =>
          session.show(await session.ask('DELETE', `/admin/workers/${segment(id)}`)),
        ),
      )
  },
}
