/** `/admin/stats/history`: traffic over time. */
import { statsPoints, statsQuery } from '../../job/stats-history.ts'
import { trafficHistory } from '../../operations/queues/queues.ts'
import { filterText } from '../message/query.ts'
import { answer } from '../message/respond.ts'
import { STATS_HISTORY } from '../openapi/queues.ts'
import type { Endpoint } from '../route.ts'
import type { Door } from './route-deps.ts'

/** Statistics for dashboards (OJS admin API). Not part of the seeds. */
export function adminStatsRoutes({ deps }: Door): Endpoint[] {
  return [
    {
      method: 'GET',
      path: '/ojs/v1/admin/stats/history',
      about: STATS_HISTORY,
      access: ['operator', 'reader'],
      scoping: { parameter: 'queue' },
      async handle(request, response) {
        const [period, since, until] = ['period', 'since', 'until'].map((name) =>
          filterText(request, name),
        )
        const given = { period: period ?? null, since: since ?? null, until: until ?? null }
        const query = statsQuery(given, deps.clock.now())
        const traffic = await trafficHistory(deps, {
          ...query,
          queue: filterText(request, 'queue'),
        })
        const data = statsPoints(query, traffic)
        // `data_points`: the name that OJS's own command line reads.
        answer(response, 200, JSON.stringify({ period: query.period, data, data_points: data }))
      },
    },
  ]
}
