import { writeSync } from 'node:fs'

/**
 * Preloaded into a gateway (`failpoints.ts`): kills it, as a power cut would, at the point that FAILPOINT
 * names: `module:Class.method:before` or `:after`, then optionally the number of the call that kills, by
 * default the first. `after` means that the method's promise has resolved: for a write of the ledger that
 * is its commit, for a publish its confirm. The last line of the log is `failpoint` then. A method of the ledger is
 * that of the ledger in use.
 */
const isOnPostgres = process.env.OJS_LEDGER?.startsWith('postgres:')
const [module = '', name = '', when, calls = '1'] = ofLedger(process.env.FAILPOINT ?? '').split(':')
const [className = '', method = ''] = name.split('.')
const { [className]: owner } = await import(new URL(`../../dist/${module}`, import.meta.url).href)
const original = owner.prototype[method]
if (typeof original !== 'function') throw new Error(`no failpoint ${process.env.FAILPOINT}`)
let left = Number(calls)

function strike() {
  left -= 1
  if (left !== 0) return
  const line = { level: 'info', msg: 'failpoint', time: new Date(), at: process.env.FAILPOINT }
  writeSync(1, `${JSON.stringify(line)}\n`)
  process.kill(process.pid, 'SIGKILL')
}

function before(...given) {
  strike()
  return original.apply(this, given)
}

async function after(...given) {
  const result = await original.apply(this, given)
  strike()
  return result
}

/** @param {string} point */
function ofLedger(point) {
  if (!isOnPostgres) return point
  return point.replace(/^ledger\/sqlite\/ledger\.js:Sqlite/, 'ledger/postgres/ledger.js:Postgres')
}

owner.prototype[method] = when === 'after' ? after : before
