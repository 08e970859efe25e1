import { writeSync } from 'node:fs'

/**
 * Preloaded into a gateway (`NODE_OPTIONS=--import`): kills it as a power cut would, at the point
 * that FAILPOINT names: `module:Class.method:before` or `:after`, where the method's promise is
 * what counts: for a write of the ledger that is its commit, for a publish its confirm. The last
 * line of the log is `failpoint` then.
 */
const [module = '', name = '', when] = (process.env.FAILPOINT ?? '').split(':')
const [className = '', method = ''] = name.split('.')
const { [className]: owner } = await import(new URL(`../../dist/${module}`, import.meta.url).href)
const original = owner.prototype[method]
if (typeof original !== 'function') throw new Error(`no failpoint ${process.env.FAILPOINT}`)

function strike() {
  const line = { level: 'info', msg: 'failpoint', time: new Date(), at: process.env.FAILPOINT }
  writeSync(1, `${JSON.stringify(line)}\n`)
  process.kill(process.pid, 'SIGKILL')
}

owner.prototype[method] = async function (...given) {
  if (when === 'before') strike()
  const result = await original.apply(this, given)
  if (when === 'after') strike()
  return result
}
