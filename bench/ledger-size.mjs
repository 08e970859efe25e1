import { say } from '../scripts/process/progress.mjs'
import { publishing, pushing } from './measures.mjs'
import { alternate } from './rounds.mjs'
import { ratioOfMedians } from './statistics.mjs'

/**
 * @typedef {import('./stage.mjs').Stage} Stage
 * @typedef {import('./rounds.mjs').Plan} Plan
 */

const ROWS = 1_000_000
const QUICK_ROWS = 50_000
/** The queue of a tenth of the rows. */
const QUEUE = 'old.0'

/**
 * Measures two gateways in turns, one with an empty ledger and one with a million jobs in it: PUSH, each
 * beside the ceiling of its own broker, and the statistics of a queue.
 * @param {Stage} stage
 * @param {Plan} plan
 */
export async function measureLedgerSize(stage, plan) {
  const full = await stage.another('ledger')
  const rows = plan.quick ? QUICK_ROWS : ROWS
  say(`  writing a ledger of ${rows} jobs`)
  await full.fillLedger(rows)
  const { ceilingSmall, pushSmall, ceilingLarge, pushLarge } = await alternate(plan, {
    ceilingSmall: await ceilingOf(stage),
    pushSmall: pushing(stage),
    ceilingLarge: await ceilingOf(full),
    pushLarge: pushing(full),
  })
  const path = `/ojs/v1/queues/${QUEUE}/stats`
  const { gateway } = await alternate(plan, {
    gateway: (seconds) =>
      full.http.get.call('latency', { url: full.url, path, seconds, watch: full.watch }),
  })
  const { title, profile } = plan
  const empty = ratioOfMedians(ceilingSmall, pushSmall, 'rate')
  return [
    {
      title: `PUSH, empty ledger, ${profile}`,
      wanted: '',
      result: { kind: 'rate', ceiling: ceilingSmall, gateway: pushSmall },
    },
    {
      title: `PUSH, ${rows.toLocaleString('en-GB')} jobs in the ledger, ${profile}`,
      wanted: `ratio ≥ ${(0.9 * empty).toFixed(2)} (0.9 × empty)`,
      result: { kind: 'rate', ceiling: ceilingLarge, gateway: pushLarge },
    },
    { title: `GET stats, ${title}`, wanted: 'p99 ≤ 5 ms', result: { kind: 'latency', gateway } },
  ]
}

/** @param {Stage} stage */
async function ceilingOf(stage) {
  const ceilingQueue = await stage.newQueue()
  await stage.sample(ceilingQueue)
  return publishing(stage, ceilingQueue)
}
