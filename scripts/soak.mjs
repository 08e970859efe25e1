import { spawn } from 'node:child_process'
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { inRoot } from './paths.mjs'
import { interruption } from './process/interruption.mjs'
import { say } from './process/progress.mjs'
import { soakTable } from './soak-table.mjs'

/** `npm test` leaves the disk out where it can, and /tmp may be in memory too, as on Debian 13. */
const ON_DISK = '/var/tmp'

/** The crashes, and the random requests, of which `npm test` plays fewer. */
const FILES = [
  'test/crash/crash.test.ts',
  'test/crash/nemesis',
  'test/properties/hostile',
  'test/properties/life',
]
const ROUND = ['--project', 'crash', '--project', 'services', ...FILES]

/** What `npm test` runs on SQLite only; once, as it is there. */
const PROJECTS = ['services', 'services-isolated', 'conformance', 'crash']
const ON_POSTGRES = ['--ledger', 'postgres', ...PROJECTS.flatMap((name) => ['--project', name])]

const USAGE = `npm run soak -- [options]

All tests of gateways with their ledgers on PostgreSQL, then rounds of crashes and random requests.

  --rounds N   how often each scenario is played (default 50)
  --seed N     seed of the first round; each later round adds 1 (default: random)
  --only TEXT  only rounds, of scenarios whose name matches this pattern`

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '50' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    only: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
})

if (values.help) console.log(USAGE)
else await soak(Number(values.rounds), Number(values.seed), values.only)

/**
 * Each round is a separate run with a new node; half of the rounds use the other queue type, and half of either the
 * ledger on PostgreSQL.
 * @param {number} rounds
 * @param {number} firstSeed
 * @param {string} [only]
 */
async function soak(rounds, firstSeed, only) {
  const { signal: interrupted } = interruption()
  const dir = mkdtempSync(join(tmpdir(), 'ojs-rabbitmq-soak-'))
  const results = join(dir, 'results.jsonl')
  appendFileSync(results, '')
  let failed = 0
  let played = 0
  let isGreen = true
  if (only === undefined) {
    say('Soak: all tests of gateways, with their ledgers on PostgreSQL.')
    isGreen = (await runTests(ON_POSTGRES, {}, interrupted)) === 0
  }
  for (let round = 0; round < rounds && !interrupted.aborted; round++) {
    const seed = firstSeed + round
    const ledger = round % 4 < 2 ? 'sqlite' : 'postgres'
    const repeat = `OJS_CRASH_SEED=${seed} OJS_CRASH_ROUND=${round} --ledger ${ledger}`
    say(`Soak: round ${round + 1} of ${rounds}, ${repeat}.`)
    const variables = {
      OJS_CRASH_SEED: String(seed),
      OJS_CRASH_ROUND: String(round),
      OJS_CRASH_RESULTS: results,
    }
    const args = ['--ledger', ledger, ...ROUND, ...(only ? ['-t', only] : [])]
    const code = await runTests(args, variables, interrupted)
    if (!interrupted.aborted) played++
    if (!interrupted.aborted && code !== 0) failed++
    console.log(`\n${soakTable(readResults(results))}\n`)
  }
  rmSync(dir, { recursive: true, force: true })
  if (!isGreen) console.log('Tests failed with a ledger on PostgreSQL: see above.')
  console.log(`${played} of ${rounds} rounds played, ${failed} of them with a failure`)
  process.exitCode = isGreen && failed === 0 && played === rounds ? 0 : 1
}

/**
 * The exit code of one run.
 * @param {string[]} args
 * @param {Record<string, string>} variables
 * @param {AbortSignal} interrupted
 * @returns {Promise<number>}
 */
function runTests(args, variables, interrupted) {
  const child = spawn(process.execPath, [inRoot('scripts', 'test.mjs'), ...args], {
    cwd: inRoot(),
    env: { TMPDIR: ON_DISK, ...process.env, ...variables },
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  interrupted.addEventListener('abort', () => child.kill(interrupted.reason.signalName))
  return new Promise((resolve) => child.once('exit', (code) => resolve(code ?? 1)))
}

/**
 * @param {string} file
 * @returns {import('./soak-table.mjs').ScenarioResult[]}
 */
function readResults(file) {
  const lines = readFileSync(file, 'utf8').split('\n')
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line))
}
