/** `ojs-rabbitmq operations`: actions on many jobs, and how far they are. */
import type { Group } from './group.ts'
import { MOST, segment } from './session.ts'

const COLUMNS = [
  ...['id', 'action', 'state', 'expected', 'matched', 'succeeded', 'failed', 'created_at'],
  'started_by',
]

export const operationsGroup: Group = {
  build(group, run) {
    group
      .command('list')
      .description('list the operations on many jobs, the newest first')
      .action(
        run((session) => session.list(session.items('/admin/operations', 'items', MOST), COLUMNS)),
      )
    group
      .command('show <id>')
      .description('show how far an operation is')
      .action(
        run(async (session, _, id) =>
          session.show(await session.ask('GET', `/admin/operations/${segment(id)}`)),
        ),
      )
    group
      .command('stop <id>')
      .description('stop an operation; what it has done stays')
      .action(
        run(async (session, _, id) =>
          session.show(await session.ask('POST', `/admin/operations/${segment(id)}/stop`, {})),
        ),
      )
  },
}
