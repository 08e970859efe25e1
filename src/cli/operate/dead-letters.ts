/** `ojs-rabbitmq dead-letters`: jobs that have failed for good. */
import { filterParameters } from '../../sdk/client/job-filter.ts'
import { query } from '../../sdk/transport/request.ts'
import { actOnMany, type ManyOptions, withMany } from './act-on-many.ts'
import { count, type FilterOptions, filterOf, withFilters } from './filters.ts'
import type { Group } from './group.ts'

const COLUMNS = ['id', 'type', 'queue', 'attempt', 'discarded_at', 'error.code', 'error.message']

export const deadLettersGroup: Group = {
  build(group, run) {
    withFilters(group.command('list'))
      .description('list dead letters; --since and --until are about when they died')
      .option('--limit <number>', 'at most so many', count, 50)
      .action(
        run((session, { limit, ...options }: FilterOptions & { limit: number }) => {
          const path = `/dead-letter${query(filterParameters(filterOf(options)))}`
          return session.list(session.items(path, 'jobs', limit + 1), COLUMNS, limit)
        }),
      )
    group
      .command('stats')
      .description('count dead letters by queue, type and error')
      .option('--queue <queues>', 'several with commas')
      .action(
        run(async (session, options: Pick<FilterOptions, 'queue'>) => {
          const path = `/dead-letter/stats${query(filterParameters(filterOf(options)))}`
          return session.show(await session.ask('GET', path))
        }),
      )
    withMany(group.command('retry [ids...]'))
      .description('make dead letters available again')
      .action(
        run((session, options: ManyOptions, _, ids) => {
          const { deadLetters, bulk } = session.client
          return actOnMany(session, ids, options, {
            one: (id) => deadLetters.retry(id),
            some: (all, how) => bulk.retryDeadLetters({ id: all }, how),
            all: (filter, how) => bulk.retryDeadLetters(filter, how),
          })
        }),
      )
    withMany(group.command('delete [ids...]'))
      .description('delete dead letters for good')
      .action(
        run((session, options: ManyOptions, _, ids) => {
          const { deadLetters, bulk } = session.client
          return actOnMany(session, ids, options, {
            one: (id) => deadLetters.delete(id),
            some: (all, how) => bulk.deleteDeadLetters({ id: all }, how),
            all: (filter, how) => bulk.deleteDeadLetters(filter, how),
          })
        }),
      )
  },
}
