import { canInstallPackages, installPackages } from '../process/debian-packages.mjs'
import { Refusal } from '../process/progress.mjs'
import { startOwnPostgres } from './own-postgres.mjs'
import { findPostgresBin } from './postgres-package.mjs'

/**
 * @typedef {object} Ledger
 * @property {string} url
 * @property {string} origin where it comes from, for the user
 * @property {() => Promise<void>} stop
 * @property {() => Promise<void>} [exited] present, like `restart`, if the server is ours and may end by itself
 * @property {(signal: AbortSignal) => Promise<void>} [restart]
 */

const TO_AVOID_IT = 'set OJS_LEDGER to postgres://… of your own server, or unset it for SQLite'

const NONE_FOUND = `No PostgreSQL found. Do one of these, then run npm start again:
  - point to one:  OJS_LEDGER=postgres://user:password@host:5432/database?sslmode=verify-full npm start
  - install it:    sudo apt-get install postgresql   (or your system's package)
  - use SQLite:    unset OJS_LEDGER`

/**
 * The PostgreSQL of `OJS_LEDGER=postgres:`, which names none; undefined for any other ledger, which the gateway
 * finds by itself.
 * @param {AbortSignal} signal
 * @returns {Promise<Ledger | undefined>}
 */
export async function findLedger(signal, wanted = process.env['OJS_LEDGER']) {
  if (!/^postgres(ql)?:$/i.test(wanted ?? '')) return undefined
  const bin = findPostgresBin() ?? (await installedBin(signal))
  signal.throwIfAborted()
  return await startOwnPostgres(bin)
}

/** @param {AbortSignal} signal */
async function installedBin(signal) {
  signal.throwIfAborted()
  if (!canInstallPackages()) throw new Refusal(NONE_FOUND)
  await installPackages(['postgresql'], TO_AVOID_IT)
  const bin = findPostgresBin()
  if (!bin) throw new Refusal('postgresql is installed, but not where Debian has it')
  return bin
}
