// Whether the tables of PostgreSQL grow under a steady load of jobs that are pushed, fetched, acknowledged and deleted after
// their retention: size of tables and indexes, rows, and dead rows, each minute. Autovacuum does its work as it is set by the
// gateway's own tables. It is no growth if the size follows the rows once the first jobs have been deleted.
//
//   npm run build && node bench/growth.mjs [--minutes 60] [--retention 5] [--connections 4]

import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import pg from 'pg'
import { say } from '../scripts/process/progress.mjs'
import { describeMachine } from './machine.mjs'
import { PRIVATE_POSTGRES, Stage } from './stage.mjs'

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '60' },
    retention: { type: 'string', default: '5' },
    connections: { type: 'string', default: '4' },
  },
})
const MINUTES = Number(values.minutes)
const CONNECTIONS = Number(values.connections)
/** Lines of the table: so many, evenly spread. */
const LINES = 12

const SIZES = `
  SELECT sum(pg_table_size(relid))::float8 AS tables, sum(pg_indexes_size(relid))::float8 AS indexes,
         sum(n_dead_tup)::float8 AS dead, sum(autovacuum_count)::int AS vacuums
  FROM pg_stat_user_tables`

/**
 * @typedef {{ minute: number, done: number, jobs: number, tables: number, indexes: number, dead: number,
 *   vacuums: number }} Sample
 */

const stage = new Stage('classic', 'growth')
try {
  const settings = { OJS_RETENTION_COMPLETED: `PT${values.retention}M` }
  await stage.openBuilt({ ledger: PRIVATE_POSTGRES, settings })
  print(await measure())
} finally {
  await stage.close()
}

/** @returns {Promise<Sample[]>} one of each minute */
async function measure() {
  const client = new pg.Client({ connectionString: stage.ledger })
  await client.connect()
  const jobsTable = await nameOfJobs(client)
  const samples = []
  let done = 0
  for (let minute = 1; minute <= MINUTES; minute++) {
    const load = { url: stage.url, queue: 'growth', connections: CONNECTIONS, watch: stage.watch }
    const round = await stage.http.flow.call('flow', { ...load, seconds: 59 })
    done += Math.round(round.rate * 59)
    const { rows } = await client.query(SIZES)
    const counted = await client.query(`SELECT count(*)::int AS jobs FROM ${jobsTable}`)
    const sample = { minute, done, ...counted.rows[0], ...rows[0] }
    say(JSON.stringify(sample))
    samples.push(sample)
  }
  await client.end()
  return samples
}

/** @param {pg.Client} client */
async function nameOfJobs(client) {
  const { rows } = await client.query(
    `SELECT format('%I.%I', schemaname, relname) AS name FROM pg_stat_user_tables WHERE relname = 'jobs'`,
  )
  return rows[0].name
}

/** @param {readonly Sample[]} samples */
function print(samples) {
  console.log(`${describeMachine()}, RabbitMQ ${stage.brokerVersion}`)
  const head = [
    'minute',
    'jobs done',
    'jobs kept',
    'tables MB',
    'indexes MB',
    'bytes per job kept',
    'dead rows',
    'vacuums',
  ]
  const table = new Table({ head, style: { head: [], border: [] } })
  const step = Math.max(1, Math.floor(samples.length / LINES))
  const mb = (/** @type {number} */ bytes) => (bytes / 1e6).toFixed(1)
  for (const { minute, done, jobs, tables, indexes, dead, vacuums } of samples) {
    if (minute % step !== 0) continue
    const perJob = Math.round((tables + indexes) / Math.max(1, jobs))
    table.push([minute, done, jobs, mb(tables), mb(indexes), perJob, dead, vacuums])
  }
  console.log(table.toString())
}
