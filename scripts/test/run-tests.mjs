import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs'
import { constants, getPriority, setPriority } from 'node:os'
import { join } from 'node:path'
import { PrivateBroker } from '../broker/private-broker.mjs'
import { build, isBuildStale } from '../build.mjs'
import { ensureDependencies } from '../dependencies.mjs'
import { inRoot, ROOT } from '../paths.mjs'
import { findPostgresBin } from '../postgres/postgres-package.mjs'
import { PrivatePostgres } from '../postgres/private-postgres.mjs'
import { messageOf } from '../process/errors.mjs'
import { interruption } from '../process/interruption.mjs'
import { endProcess, guard, signalProcess, unguard } from '../process/processes.mjs'
import { Refusal, say, waitingFor } from '../process/progress.mjs'
import { removeFolder } from '../process/remove-folder.mjs'
import { CONTAINERS, imagePairs, startContainers } from './containers.mjs'
import { countOf, countsOfAll } from './count.mjs'
import { DEBIAN_PYTHON, testVariables } from './environment.mjs'
import { provideNode22 } from './node-22.mjs'
import { providePackages } from './packages.mjs'
import { needsOf, PROJECTS } from './projects.mjs'
import { makeRunFolder } from './run-folder.mjs'
import { withSecondTry } from './second-try.mjs'

/**
 * @typedef {object} VitestRun
 * @property {string[]} args
 * @property {Record<string, string>} env
 * @property {string} dir
 * @property {AbortSignal} interrupted
 * @property {string} [output] the file for its output; default: our own
 * @property {string} [node]
 * @property {number} [niceness]
 */

/**
 * @typedef {object} TestRun
 * @property {import('./count.mjs').Count} count
 * @property {(files: string[]) => Promise<import('./count.mjs').Count>} [again]
 */

/** For runs that compute: the runs beside them mostly wait, and have to keep their timers. */
const NICENESS = 5
/** Each Chromium takes a whole core while it starts. */
const ONE_AFTER_THE_OTHER = '--maxWorkers=1'
const BESIDE_OTHERS = '--maxWorkers=2'
/** Four times what the folder of a whole run was seen to hold. */
const FOLDER_BYTES = 2 * 1024 ** 3

/**
 * Everything behind `npm test`. Resolves to the numbers of test cases that passed and failed.
 * @param {string[]} vitestArgs
 */
export async function runTests(vitestArgs) {
  const { args: given, ledger } = withoutLedger(vitestArgs)
  // For the tests, by their environment, as the URLs of the servers.
  if (ledger !== undefined) process.env[testVariables.ledger] = ledger
  const args = given.filter((arg) => arg !== CONTAINERS)
  return args.length < given.length ? runOnImages(args) : runOnThisMachine(args)
}

/**
 * `--ledger postgres`: the gateways of the tests have their ledgers there.
 * @param {string[]} args
 */
function withoutLedger(args) {
  const at = args.indexOf('--ledger')
  if (at < 0) return { args, ledger: undefined }
  const ledger = args[at + 1]
  if (ledger !== 'postgres' && ledger !== 'sqlite')
    throw new Refusal('--ledger takes postgres or sqlite.')
  return { args: args.toSpliced(at, 2), ledger }
}

/** @param {string[]} vitestArgs */
async function runOnThisMachine(vitestArgs) {
  const { signal: interrupted } = interruption()
  const dir = makeRunFolder(FOLDER_BYTES)
  /** @type {PrivateBroker | undefined} */
  let broker
  /** @type {PrivatePostgres | undefined} */
  let postgres
  try {
    const needs = needsOf(vitestArgs, process.env[testVariables.ledger] === 'postgres')
    const sbin = await setUp(needs, interrupted)
    broker = needs.sharedNode && sbin ? sharedNode(sbin, join(dir, 'rabbitmq')) : undefined
    postgres = needs.postgres ? sharedPostgres(join(dir, 'ojs-postgres')) : undefined
    await allOf([broker && startNode(broker, interrupted), postgres && startPostgres(postgres)])
    const env = variables(sbin, broker, postgres)
    const vitest = { args: vitestArgs, env, dir, interrupted }
    return vitestArgs.length === 0 ? await runEverything(vitest) : (await runVitest(vitest)).count
  } finally {
    await Promise.all([broker?.stop(), postgres?.stop()])
    await removeRunFolder(dir)
  }
}

/**
 * `--containers`: the tests that share a node, once for each pair of images. The nodes that tests start for
 * themselves, to kill them, are of this machine.
 * @param {string[]} vitestArgs
 */
async function runOnImages(vitestArgs) {
  const { signal: interrupted } = interruption()
  const args = vitestArgs.length > 0 ? vitestArgs : projects(['services', 'services-isolated'])
  const dir = makeRunFolder(FOLDER_BYTES)
  const runs = []
  try {
    const sbin = await setUp(needsOf(args), interrupted)
    for (const images of imagePairs()) {
      const servers = await waitingFor(`${images.rabbitmq} and ${images.postgres}`, () =>
        startContainers(images),
      )
      try {
        const env = {
          ...variables(sbin, servers.broker, servers.postgres),
          [testVariables.image]: images.rabbitmq,
        }
        runs.push(await runVitest({ args, env, dir, interrupted }))
      } finally {
        await servers.stop()
      }
    }
    return total(runs.map(({ count }) => count))
  } finally {
    await removeRunFolder(dir)
  }
}

/**
 * A failure is only reported: if an ending process still writes there, the tests have not failed.
 * @param {string} dir
 */
async function removeRunFolder(dir) {
  try {
    await removeFolder(dir)
  } catch (error) {
    say(`${dir} could not be removed: ${messageOf(error)}`)
  }
}

/**
 * @param {PrivateBroker} node
 * @param {AbortSignal} interrupted
 */
function startNode(node, interrupted) {
  return waitingFor('the RabbitMQ node of the tests', () => node.start(interrupted))
}

/**
 * Installs and builds what is missing, npm beside apt-get: both mostly wait for the network. Returns the
 * folder of RabbitMQ's scripts if the tests need it.
 * @param {ReturnType<typeof needsOf>} needs
 * @param {AbortSignal} interrupted
 */
async function setUp(needs, interrupted) {
  const packages = needs.rabbitmq ? providePackages(needs) : undefined
  await allOf([packages, provideBuild(needs, interrupted)])
  return packages
}

/**
 * If one fails, the others are waited for all the same.
 * @param {unknown[]} work
 */
async function allOf(work) {
  await Promise.allSettled(work)
  await Promise.all(work)
}

/**
 * @param {{ rabbitmq: boolean }} needs
 * @param {AbortSignal} interrupted
 */
async function provideBuild({ rabbitmq }, interrupted) {
  await ensureDependencies({ dev: true, signal: interrupted })
  if (rabbitmq && isBuildStale()) await build(interrupted)
}

/**
 * @param {string} sbin
 * @param {string} dir
 */
function sharedNode(sbin, dir) {
  // The management API counts messages every 5 s by default, and tests wait for its counts. No test asks for
  // rates, which it would compute for each of hundreds of queues.
  // And with what hundreds of virtual hosts hold it comes near the limit at which a node stops all publishers.
  const conf =
    'collect_statistics_interval = 500\nmanagement.rates_mode = none\nvm_memory_high_watermark.absolute = 1GB'
  return new PrivateBroker({ sbin, dir, plugins: ['rabbitmq_management'], conf })
}

/**
 * Its commits are safe, or the gateways would warn; in memory that costs nothing.
 * @param {string} dir
 */
function sharedPostgres(dir) {
  const bin = findPostgresBin()
  if (!bin) throw new Refusal('PostgreSQL is installed, but not where Debian has it')
  return new PrivatePostgres({ bin, dir, password: randomUUID() })
}

/** @param {PrivatePostgres} server */
function startPostgres(server) {
  return waitingFor('the PostgreSQL of the tests', () => server.start())
}

/**
 * @param {string} [sbin]
 * @param {Pick<PrivateBroker, 'url' | 'managementPort'>} [broker]
 * @param {Pick<PrivatePostgres, 'url'>} [postgres]
 * @returns {Record<string, string>}
 */
function variables(sbin, broker, postgres) {
  return {
    ...(sbin ? { [testVariables.sbin]: sbin, [testVariables.python]: DEBIAN_PYTHON } : {}),
    ...(broker
      ? {
          [testVariables.amqpUrl]: broker.url(),
          [testVariables.managementPort]: String(broker.managementPort),
        }
      : {}),
    ...(postgres ? { [testVariables.postgresUrl]: postgres.url() } : {}),
  }
}

const CASES = ['conformance']
const BROWSER = ['browser']
const UNITS = ['unit', 'unit-isolated', 'properties']
const REST = PROJECTS.filter((name) => ![...CASES, ...BROWSER, ...UNITS].includes(name))

/**
 * Tests with a broker mostly wait; they keep both cores busy only while the crash tests run. So four more
 * runs use the rest beside them, one after the other: the cases of OJS's public suite, which take 140 s and
 * hardly any CPU (they wait for delays and for full minutes), the console in a browser, the ledger on Node
 * 22, and the unit tests, which only compute. Their output is printed at the end.
 * @param {VitestRun} vitest
 */
async function runEverything(vitest) {
  const ofCases = join(vitest.dir, 'conformance.log')
  const ofBrowser = join(vitest.dir, 'browser.log')
  const ofLedger = join(vitest.dir, 'node-22.log')
  const ofUnits = join(vitest.dir, 'unit.log')
  const cases = runVitest({ ...vitest, args: projects(CASES), output: ofCases })
  const inBrowser = [...projects(BROWSER), ONE_AFTER_THE_OTHER]
  const thenBrowser = () => runVitest({ ...vitest, args: inBrowser, output: ofBrowser })
  const browser = cases.then(thenBrowser, thenBrowser)
  const thenLedger = () => runLedgerOnNode22(vitest, ofLedger)
  const ledger = browser.then(thenLedger, thenLedger)
  const args = [...projects(UNITS), BESIDE_OTHERS]
  const thenUnits = () => runVitest({ ...vitest, args, output: ofUnits, niceness: NICENESS })
  const units = ledger.then(thenUnits, thenUnits)
  const others = runVitest({ ...vitest, args: projects(REST) })
  const runs = await countsOfAll([others, cases, browser, ledger, units])
  for (const output of [ofCases, ofBrowser, ofLedger, ofUnits])
    if (existsSync(output)) process.stdout.write(readFileSync(output))
  return withSecondTry(runs, say)
}

/** @param {import('./count.mjs').Count[]} counts */
function total(counts) {
  const sum = { passed: 0, failed: 0 }
  for (const { passed, failed } of counts) {
    sum.passed += passed
    sum.failed += failed
  }
  return sum
}

/** @param {readonly string[]} names */
function projects(names) {
  return names.flatMap((name) => ['--project', name])
}

/**
 * The ledger supports two SQLite drivers, and the other one is built into Node 22. The random sequences
 * (`test/properties`) are left out, because they test the ledger's own rules, which do not depend on the
 * driver.
 * @param {VitestRun} vitest
 * @param {string} output
 */
async function runLedgerOnNode22(vitest, output) {
  const nothing = { count: { passed: 0, failed: 0, failures: [] } }
  if (Number.parseInt(process.versions.node, 10) >= 22 || vitest.interrupted.aborted) return nothing
  const node = await provideNode22(vitest.interrupted)
  const args = [...projects(['unit']), BESIDE_OTHERS, 'test/ledger']
  if (node) return runVitest({ ...vitest, node, args, output, niceness: NICENESS })
  say('Node 22 could not be obtained: the ledger was tested on this Node only.')
  return process.env['CI'] ? NOT_RUN : nothing
}

/** @type {TestRun} */
const NOT_RUN = { count: { passed: 0, failed: 1, failures: [] } }

let runs = 0

/**
 * Its output goes to our own, or to the file `output`.
 * @param {VitestRun} options
 * @returns {Promise<TestRun>}
 */
async function runVitest(options) {
  const { args, env, dir, interrupted, output, node = process.execPath, niceness = 0 } = options
  if (interrupted.aborted) return NOT_RUN
  const out = output === undefined ? 'inherit' : openSync(output, 'w')
  runs += 1
  const report = join(dir, `report-${runs}.json`)
  const vitest = inRoot('node_modules', 'vitest', 'vitest.mjs')
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`]
  const child = spawn(node, [vitest, 'run', ...reporters, ...args], {
    cwd: ROOT,
    // Temporary files of the tests are removed with ours, even after an interruption.
    env: { ...process.env, ...env, TMPDIR: dir },
    // A process group of its own: after an interruption vitest's workers outlive vitest, and so would the
    // gateways that they have started.
    detached: true,
    stdio: ['ignore', out, out],
  })
  if (typeof out === 'number') closeSync(out)
  await once(child, 'spawn') // Rejects where it could not be started: then there is no group either.
  const { pid } = child
  if (pid === undefined) throw new Error('vitest could not be started')
  const group = -pid
  guard(group)
  setPriority(pid, Math.min(getPriority() + niceness, constants.priority.PRIORITY_LOW))
  /** @type {Promise<number>} */
  const exited = new Promise((resolve) => child.once('exit', (code) => resolve(code ?? 1)))
  interrupted.addEventListener('abort', () => void endProcess(group, exited, 10_000))
  const code = await exited
  signalProcess(group, 'SIGKILL')
  unguard(group)
  if (interrupted.aborted && output === undefined) say(interrupted.reason.message)
  return { count: countOf(report, code), again: (files) => runAgain(options, files) }
}

/**
 * A second try of test files, alone, on the same Node.
 * @param {VitestRun} options
 * @param {string[]} files
 */
async function runAgain({ args, env, dir, interrupted, node }, files) {
  const selected = args.filter((_, index) => [args[index - 1], args[index]].includes('--project'))
  const again = { args: [...selected, '--maxWorkers=1', ...files], env, dir, interrupted }
  return (await runVitest(node ? { ...again, node } : again)).count
}
