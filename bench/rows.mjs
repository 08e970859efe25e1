import { measureBacklog } from './backlog.mjs'
import { measureFleet } from './fleet.mjs'
import { measureLedgerSize } from './ledger-size.mjs'
import { measureLedgers } from './ledgers.mjs'
import {
  measureBatch,
  measureDrain,
  measureFlow,
  measureLatency,
  measurePush,
  measureUnique,
  measureWorker,
  measureWorkflows,
} from './measures.mjs'
import {
  measureAlone,
  measureHalfLoad,
  measureNative,
  measureProducer,
  measureStartLatency,
} from './native.mjs'
import { measureSchedules } from './schedules.mjs'

export const PROFILES = ['classic', 'quorum']

/**
 * @typedef {import('./table.mjs').Measured} Measured
 *
 * @typedef {object} Row
 * @property {string} name
 * @property {string} title
 * @property {string} profile
 * @property {string} [wanted]
 * @property {Record<import('./table.mjs').Side, string>} [sides]
 * @property {(stage: import('./stage.mjs').Stage, plan: import('./rounds.mjs').Plan) => Promise<Measured['result'] | Measured[]>} measure
 */

/**
 * The rows, in the order of the table. `measure(stage, plan)` returns the result of the row, or several parts
 * with a title and an aim of their own. `wanted` is the project's aim for a machine with two cores; it is
 * printed beside the figure and never asserted.
 * @type {Row[]}
 */
export const ROWS = PROFILES.flatMap((profile) => [
  {
    name: `push-${profile}`,
    title: `PUSH, ${profile}`,
    profile,
    wanted: profile === 'classic' ? 'ratio ≥ 0.60' : 'ratio ≥ 0.40',
    measure: measurePush,
  },
  {
    name: `unique-${profile}`,
    title: `PUSH of a unique job, ${profile}`,
    profile,
    wanted: 'ratio ≥ 0.80',
    sides: { ceiling: 'plain PUSH', gateway: 'unique PUSH' },
    measure: measureUnique,
  },
  {
    name: `batch-${profile}`,
    title: `PUSH batch of 100, ${profile}`,
    profile,
    wanted: profile === 'classic' ? 'ratio ≥ 0.70' : 'ratio ≥ 0.50',
    measure: measureBatch,
  },
  {
    name: `latency-${profile}`,
    title: `PUSH→FETCH, idle, ${profile}`,
    profile,
    wanted: 'p50 ≤ 5 ms',
    measure: measureLatency,
  },
  {
    name: `flow-${profile}`,
    title: `PUSH+FETCH+ACK, ${profile}`,
    profile,
    wanted: '',
    measure: measureFlow,
  },
  {
    name: `drain-${profile}`,
    title: `FETCH(10)+ACK, ${profile}`,
    profile,
    wanted: '≥ 3,000/s',
    measure: measureDrain,
  },
  {
    name: `workflows-${profile}`,
    title: `Workflow steps, ${profile}`,
    profile,
    wanted: '',
    sides: { ceiling: 'plain jobs', gateway: 'steps' },
    measure: measureWorkflows,
  },
  {
    name: `worker-${profile}`,
    title: `HTTP worker of the SDK, ${profile}`,
    profile,
    wanted: '≥ 2,500/s; ≤ 130 µs',
    sides: { ceiling: 'single ACKs', gateway: 'many at once' },
    measure: measureWorker,
  },
  {
    name: `native-${profile}`,
    title: `Native worker, ${profile}`,
    profile,
    wanted: profile === 'quorum' ? 'ratio ≥ 0.20' : '',
    measure: measureNative,
  },
  {
    name: `start-latency-${profile}`,
    title: `PUSH→native handler, idle, ${profile}`,
    profile,
    wanted: 'p50 ≤ 4 ms',
    measure: measureStartLatency,
  },
  {
    name: `half-load-${profile}`,
    title: `PUSH→native handler, half load, ${profile}`,
    profile,
    wanted: 'p99 ≤ 20 ms',
    sides: { ceiling: 'full load', gateway: 'half of it' },
    measure: measureHalfLoad,
  },
  {
    name: `producer-${profile}`,
    title: `Native producer, ${profile}`,
    profile,
    wanted: 'ratio ≥ 0.70',
    measure: measureProducer,
  },
  {
    name: `fleet-${profile}`,
    title: `Fleet, ${profile}`,
    profile,
    wanted: 'within 10 % of each other',
    measure: measureFleet,
  },
  {
    name: `schedules-${profile}`,
    title: `Schedules, ${profile}`,
    profile,
    measure: measureSchedules,
  },
  {
    name: `native-alone-${profile}`,
    title: `Native worker, no gateway, ${profile}`,
    profile,
    measure: measureAlone,
  },
  {
    name: `ledger-${profile}`,
    title: `a million jobs, ${profile}`,
    profile,
    measure: measureLedgerSize,
  },
  {
    name: `ledgers-${profile}`,
    title: `SQLite and PostgreSQL, ${profile}`,
    profile,
    sides: { ceiling: 'SQLite', gateway: 'PostgreSQL' },
    measure: measureLedgers,
  },
  {
    name: `backlog-${profile}`,
    title: `Backlog, ${profile}`,
    profile,
    measure: measureBacklog,
  },
])
