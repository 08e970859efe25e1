import { resolve } from 'node:path'
import { findRabbitmqSbin, requireRabbitmqSbin } from '../scripts/broker/rabbitmq-package.mjs'
import { build, isBuildStale } from '../scripts/build.mjs'
import { ensureDependencies } from '../scripts/dependencies.mjs'
import { inRoot } from '../scripts/paths.mjs'
import { findPostgresBin } from '../scripts/postgres/postgres-package.mjs'
import { interruption } from '../scripts/process/interruption.mjs'
import { Refusal, reportOf, say, waitingFor } from '../scripts/process/progress.mjs'
import { measureLedgers } from './ledgers.mjs'
import { describeMachine } from './machine.mjs'
import { DISTURBED_PERCENT } from './meter.mjs'
import { readOptions } from './options.mjs'
import { profilerTo, renderProfiles } from './profile.mjs'
import { PROFILES, ROWS } from './rows.mjs'
import { PRIVATE_POSTGRES, Stage } from './stage.mjs'
import { renderTable } from './table.mjs'

/**
 * @typedef {NonNullable<ReturnType<typeof readOptions>>} Options
 * @typedef {import('./table.mjs').Measured} Measured
 * @typedef {import('./rows.mjs').Row} Row
 * @typedef {Options & { main: string, sbin: string, signal: AbortSignal }} Setup
 */

try {
  const options = readOptions(process.argv.slice(2))
  if (options) await benchmark(options)
} catch (error) {
  say(reportOf(error))
  process.exitCode = 1
}

/** @param {Options} options */
async function benchmark(options) {
  const { signal } = interruption()
  const main = options.gateway ? resolve(options.gateway) : inRoot('dist', 'main.js')
  await ensureDependencies({ dev: isBuildStale(), signal })
  if (!options.gateway && isBuildStale()) await build(signal)
  const plan = { ...options, main, sbin: await sbinOf(options), signal }
  /** @type {Measured[]} */
  const measured = []
  try {
    for (const profile of PROFILES) {
      const rows = ROWS.filter((row) => row.profile === profile && isWanted(row, options.only))
      if (rows.length > 0) await measureProfile(profile, rows, plan, measured)
    }
  } finally {
    // Reports what has been measured so far, even if the run is interrupted after an hour.
    if (measured.length > 0) report(measured, options)
  }
}

/** @param {Options} options */
async function sbinOf({ brokerRoot, ledger, only }) {
  const needsPostgres =
    ledger === PRIVATE_POSTGRES ||
    ROWS.some((row) => row.measure === measureLedgers && isWanted(row, only))
  const missing = needsPostgres && !findPostgresBin() ? ['postgresql'] : []
  // Erlang's port mapper is this system's in any case.
  const installed = await requireRabbitmqSbin(missing)
  if (brokerRoot === undefined) return installed
  const sbin = findRabbitmqSbin(brokerRoot)
  if (!sbin) throw new Refusal(`no rabbitmq-server below ${brokerRoot}`)
  return sbin
}

/**
 * @param {{ name: string }} given
 * @param {readonly string[]} only
 */
function isWanted({ name }, only) {
  return only.length === 0 || only.some((each) => name.includes(each))
}

/**
 * Measures a profile with a broker and a gateway of its own, so that nothing stays in memory from another
 * profile. Adds the results to `measured`.
 * @param {string} profile
 * @param {Row[]} rows
 * @param {Setup} plan
 * @param {Measured[]} measured
 */
async function measureProfile(profile, rows, plan, measured) {
  const stage = new Stage(profile)
  const nodeArgs = profilerTo(plan.profile)
  try {
    await waitingFor(`RabbitMQ and the gateway, ${profile}`, () =>
      stage.open({ ...plan, nodeArgs }),
    )
    for (const row of rows) {
      const work = row.measure(stage, { ...plan, wanted: '', ...row })
      const result = await untilAborted(plan.signal, work)
      const parts = Array.isArray(result) ? result : [{ ...row, result }]
      for (const part of parts) measured.push({ ...part, brokerVersion: stage.brokerVersion })
    }
  } finally {
    await waitingFor('everything to end', () => stage.close())
  }
}

/**
 * @template T
 * @param {AbortSignal} signal
 * @param {Promise<T>} work
 * @returns {Promise<T>}
 */
function untilAborted(signal, work) {
  let onAbort = () => {}
  /** @type {Promise<never>} */
  const aborted = new Promise((_, reject) => {
    onAbort = () => reject(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
  })
  return Promise.race([work, aborted]).finally(() => signal.removeEventListener('abort', onAbort))
}

/**
 * @param {Measured[]} measured
 * @param {Options} options
 */
function report(measured, { rounds, seconds, profile }) {
  const version = measured[0]?.brokerVersion
  console.log(`${describeMachine()}, RabbitMQ ${version}, ${rounds} rounds of ${seconds} s`)
  const jobMessage = measured.find(({ result }) => result.jobMessage)?.result.jobMessage
  if (jobMessage)
    console.log(`Message: ${jobMessage.bytes} bytes, ${jobMessage.properties.join(', ')}`)
  console.log(`\n${renderTable(measured)}`)
  for (const { result } of measured) if (result.note) console.log(`\n${result.note}`)
  reportDisturbance(measured)
  reportOtherAnswers(measured)
  if (profile) console.log(`\n${renderProfiles(profile, measured.map(toRounds))}`)
}

/** @param {Measured} measured */
function toRounds({ title, result }) {
  return { title, rounds: result.gateway }
}

/** @param {Measured[]} measured */
function reportDisturbance(measured) {
  const rounds = measured.flatMap(({ result }) => [...(result.ceiling ?? []), ...result.gateway])
  const disturbed = rounds.filter((round) => round.cpu.others > DISTURBED_PERCENT)
  if (disturbed.length === 0) return
  console.log(
    `\nIn ${disturbed.length} of ${rounds.length} rounds other processes used more than ` +
      `${DISTURBED_PERCENT} % of a core: the figures are not comparable with a quiet machine's.`,
  )
}

/**
 * Reports other answers than 201 to a PUSH, each of which makes the run worthless.
 * @param {Measured[]} measured
 */
function reportOtherAnswers(measured) {
  for (const { title, result } of measured) {
    const other = result.gateway.flatMap((round) => Object.entries(round.other ?? {}))
    if (other.length === 0) continue
    process.exitCode = 1
    console.log(`\n${title}: answers other than 201: ${JSON.stringify(other)}`)
  }
}
