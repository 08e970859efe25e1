import { draining, pushing } from './measures.mjs'
import { working } from './native.mjs'
import { alternate } from './rounds.mjs'
import { PRIVATE_POSTGRES } from './stage.mjs'

/**
 * @typedef {import('./stage.mjs').Stage} Stage
 * @typedef {import('./rounds.mjs').Plan} Plan
 */

const LOADS = [
  { title: 'PUSH', sideOf: pushing, wanted: 'ratio ≥ 0.70' },
  { title: 'FETCH(10)+ACK', sideOf: draining },
  { title: 'Native worker', sideOf: working },
]

/**
 * Measures two gateways in turns, one with its ledger in a file, one with it on a PostgreSQL of this machine, each with
 * a broker of its own.
 * @param {Stage} stage
 * @param {Plan} plan
 */
export async function measureLedgers(stage, plan) {
  const sqlite = await stage.withLedger('sqlite', undefined)
  const postgres = await stage.withLedger('postgres', PRIVATE_POSTGRES)
  const rows = []
  for (const { title, sideOf, wanted } of LOADS) {
    const full = `${title}, ledgers, ${plan.profile}`
    const rounds = await alternate(
      { ...plan, title: full },
      { ceiling: sideOf(sqlite), gateway: sideOf(postgres) },
    )
    rows.push({ title: full, wanted, sides: plan.sides, result: { kind: 'rate', ...rounds } })
  }
  return rows
}
