import { writeSync } from 'node:fs'

/**
 * Preloaded into a gateway (`NODE_OPTIONS=--import`): kills it as a power cut would, right before or
 * right after so many commits of its ledger: `FAILPOINT_COMMITS=before:7`. The last line of the log
 * is `failpoint` then.
 *
 * At what a group commit calls around its COMMIT: the last `store` of its companions, and the first
 * `commit` (src/ledger/sqlite/kept.ts has their order).
 */
const [when, commits] = (process.env.FAILPOINT_COMMITS ?? '').split(':')
const dist = new URL('../../dist/ledger/sqlite/', import.meta.url)
const { WorkflowBook } = await import(new URL('workflow-book.js', dist).href)
const { StateCounter } = await import(new URL('state-counter.js', dist).href)
let left = Number(commits)

function strike() {
  const line = { level: 'info', msg: 'failpoint', time: new Date(), when }
  writeSync(1, `${JSON.stringify(line)}\n`)
  process.kill(process.pid, 'SIGKILL')
}

const [owner, method] = when === 'before' ? [WorkflowBook, 'store'] : [StateCounter, 'commit']
const original = owner.prototype[method]
if (typeof original !== 'function') throw new Error(`no failpoint at ${method}`)
owner.prototype[method] = function () {
  left--
  if (left === 0) strike()
  original.call(this)
}
