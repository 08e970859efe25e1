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

const USAGE = `npm run soak -- [options]

  --rounds N   how often each scenario is played (default 50)
  --seed N     seed of the first round; each later round adds 1 (default: random)
  --only TEXT  scenarios whose name matches this pattern`

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
 * Each round is a separate run with a new node; half of the rounds use the other queue type.
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
  for (let round = 0; round < rounds && !interrupted.aborted; round++) {
    const seed = firstSeed + round
    say(`Soak: round ${round + 1} of ${rounds}, OJS_CRASH_SEED=${seed} OJS_CRASH_ROUND=${round}.`)
    const variables = {
      OJS_CRASH_SEED: String(seed),
      OJS_CRASH_ROUND: String(round),
      OJS_CRASH_RESULTS: results,
    }
    const code = await playRound(variables, only, interrupted)
    if (!interrupted.aborted) played++
    if (!interrupted.aborted && code !== 0) failed++
    console.log(`\n${soakTable(readResults(results))}\n`)
  }
  rmSync(dir, { recursive: true, force: true })
  console.log(`${played} of ${rounds} rounds played, ${failed} of them with a failure`)
  process.exitCode = failed === 0 && played === rounds ? 0 : 1
}

/**
 * The exit code of one run.
 * @param {Record<string, string>} variables
 * @param {string | undefined} only
 * @param {AbortSignal} interrupted
 * @returns {Promise<number>}
 */
function playRound(variables, only, interrupted) {
  const projects = ['--project', 'crash', '--project', 'services']
  const args = [...projects, ...FILES, ...(only ? ['-t', only] : [])]
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
