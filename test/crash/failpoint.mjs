import { writeSync } from 'node:fs'

/**
 * Preloaded into a gateway (`failpoints.ts`): kills it, as a power cut would, at the point that FAILPOINT
 * names: `module:Class.method:before` or `:after`, then optionally the number of the call that kills, by
 * default the first. `after` means that the method's promise has resolved: for a write of the ledger that
 * is its commit, for a publish its confirm. The last line of the log is `failpoint` then. A method of the ledger
 * is that of the ledger in use; on PostgreSQL any commit stands for one of a part of the ledger.
 */
const COMMIT = 'ledger/postgres/connection.js:Connection.ask'
const point = ofLedger(process.env.FAILPOINT ?? '')
const [module = '', name = '', when, calls = '1'] = point.split(':')
const [className = '', method = ''] = name.split('.')
const { [className]: owner } = await import(new URL(`../../dist/${module}`, import.meta.url).href)
const original = owner.prototype[method]
if (typeof original !== 'function') throw new Error(`no failpoint ${process.env.FAILPOINT}`)
let left = Number(calls)

function strike(given) {
  if (point.startsWith(COMMIT) && !isGroup(given[0])) return
  left -= 1
  if (left !== 0) return
  const line = { level: 'info', msg: 'failpoint', time: new Date(), at: process.env.FAILPOINT }
  writeSync(1, `${JSON.stringify(line)}\n`)
  process.kill(process.pid, 'SIGKILL')
}

/** @param {{ text: string }[]} statements of a migration, the COMMIT stands alone */
function isGroup(statements) {
  return statements.length > 1 && statements.at(-1)?.text === 'COMMIT'
}

function before(...given) {
  strike(given)
  return original.apply(this, given)
}

async function after(...given) {
  const result = await original.apply(this, given)
  strike(given)
  return result
}

/** @param {string} given */
function ofLedger(given) {
  if (!process.env.OJS_LEDGER?.startsWith('postgres:')) return given
  return given
    .replace(/^ledger\/sqlite\/ledger\.js:Sqlite/, 'ledger/postgres/ledger.js:Postgres')
    .replace(/^ledger\/sqlite\/[^:]*:[^:]*/, COMMIT)
}

owner.prototype[method] = when === 'after' ? after : before
