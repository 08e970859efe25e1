import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync } from 'node:fs'
import { constants, getPriority, setPriority, tmpdir } from 'node:os'
import { join } from 'node:path'
import { build, isBuildStale } from './build.mjs'
import { canInstallPackages, installPackages } from './debian-packages.mjs'
import { ensureDependencies } from './dependencies.mjs'
import { interruption } from './interruption.mjs'
import { provideNode22 } from './node-22.mjs'
import { inRoot, ROOT } from './paths.mjs'
import { PrivateBroker } from './private-broker.mjs'
import { endProcess, guard, signalProcess, unguard } from './processes.mjs'
import { say, waitingFor } from './progress.mjs'
import { requireRabbitmqSbin } from './rabbitmq-package.mjs'
import { removeFolder } from './remove-folder.mjs'
import { findExecutable, isExecutable, run } from './run.mjs'
import { countOf, sumOfAll } from './test-count.mjs'
import { DEBIAN_GO, DEBIAN_GOPATH, DEBIAN_PYTHON, testVariables } from './test-environment.mjs'
import { needsOf, PROJECTS } from './test-projects.mjs'

/** Those that mostly wait have timers to keep: what computes beside them gives way. */
const NICENESS = 5
const BESIDE_OTHERS = '--maxWorkers=2'

/** Everything behind `npm test`; answers how many test cases passed and failed. */
export async function runTests(vitestArgs) {
  const { signal: interrupted } = interruption()
  const dir = mkdtempSync(join(tmpdir(), 'ojs-rabbitmq-test-'))
  let broker
  try {
    await ensureDependencies({ dev: true, signal: interrupted })
    const needs = needsOf(vitestArgs)
    const sbin = needs.rabbitmq ? await providePackages(needs) : undefined
    if (needs.rabbitmq && isBuildStale()) await build(interrupted)
    broker = needs.sharedNode ? sharedNode(sbin, join(dir, 'rabbitmq')) : undefined
    if (broker) await waitingFor('the RabbitMQ node of the tests', () => broker.start(interrupted))
    const vitest = { args: vitestArgs, env: variables(sbin, broker), dir, interrupted }
    return vitestArgs.length === 0 ? await runEverything(vitest) : await runVitest(vitest)
  } finally {
    await broker?.stop()
    await removeRunFolder(dir)
  }
}

/** What a process that is still ending writes there is no failure of the tests that were counted. */
async function removeRunFolder(dir) {
  try {
    await removeFolder(dir)
  } catch (error) {
    say(`${dir} could not be removed: ${error.message}`)
  }
}

/**
 * The packages of the archive that the tests use: the broker; pika, for a foreign client; curl and
 * jq, for the example session of seed 001 (without jq a stand-in does); Go and its AMQP client, for
 * the example in Go.
 */
async function providePackages({ go }) {
  const hasPika = (await run(DEBIAN_PYTHON, ['-c', 'import pika'])).code === 0
  const missing = [
    ...(hasPika ? [] : ['python3-pika']),
    ...(findExecutable('curl') ? [] : ['curl']),
    ...(findExecutable('openssl') ? [] : ['openssl']),
    ...(go ? missingForGo() : []),
  ]
  const sbin = await requireRabbitmqSbin(missing)
  await provideJq()
  return sbin
}

/** Nobody has to have it, so a machine without a network, say, is no reason to test nothing. */
async function provideJq() {
  if (findExecutable('jq') || !canInstallPackages()) return
  try {
    await installPackages(['jq'])
  } catch (error) {
    say(`jq could not be installed; a stand-in takes its place. ${error.message}`)
  }
}

function missingForGo() {
  const client = join(DEBIAN_GOPATH, 'src', 'github.com', 'rabbitmq', 'amqp091-go')
  return [
    ...(isExecutable(DEBIAN_GO) ? [] : ['golang-go']),
    ...(existsSync(client) ? [] : ['golang-github-rabbitmq-amqp091-go-dev']),
  ]
}

function sharedNode(sbin, dir) {
  // The management API counts messages every 5 s by default; tests wait for what it says. Rates,
  // which it would count for each of hundreds of queues, no test asks for.
  const conf = 'collect_statistics_interval = 500\nmanagement.rates_mode = none'
  return new PrivateBroker({ sbin, dir, plugins: ['rabbitmq_management'], conf })
}

function variables(sbin, broker) {
  return {
    ...(sbin ? { [testVariables.sbin]: sbin, [testVariables.python]: DEBIAN_PYTHON } : {}),
    ...(broker
      ? {
          [testVariables.amqpUrl]: broker.url(),
          [testVariables.managementPort]: String(broker.managementPort),
        }
      : {}),
  }
}

const CASES = ['conformance']
const UNITS = ['unit', 'unit-isolated']
const REST = PROJECTS.filter((name) => ![...CASES, ...UNITS].includes(name))

/**
 * What has a broker mostly waits, and keeps both cores busy only while the crashes run. So three runs
 * wait for another beside it, each in what the others leave: the cases of OJS's public suite, which
 * take 140 s and no CPU worth mentioning (they wait for delays and for full minutes), the ledger on
 * Node 22, and what only computes. They tell how it went at the end.
 */
async function runEverything(vitest) {
  const outputs = ['conformance.log', 'node-22.log', 'unit.log'].map((name) =>
    join(vitest.dir, name),
  )
  const [ofCases, ofLedger, ofUnits] = outputs
  const cases = runVitest({ ...vitest, args: projects(CASES), output: ofCases })
  const thenLedger = () => runLedgerOnNode22(vitest, ofLedger)
  const ledger = cases.then(thenLedger, thenLedger)
  const args = [...projects(UNITS), BESIDE_OTHERS]
  const thenUnits = () => runVitest({ ...vitest, args, output: ofUnits, niceness: NICENESS })
  const units = ledger.then(thenUnits, thenUnits)
  const others = runVitest({ ...vitest, args: projects(REST) })
  const count = await sumOfAll([others, cases, ledger, units])
  for (const output of outputs) if (existsSync(output)) process.stdout.write(readFileSync(output))
  return count
}

function projects(names) {
  return names.flatMap((name) => ['--project', name])
}

/**
 * The ledger is written to two SQLite drivers; Node 22 has the other one built in. The random
 * sequences (`test/properties`) are about the ledger's own rules, whatever the driver.
 */
async function runLedgerOnNode22(vitest, output) {
  const nothing = { passed: 0, failed: 0 }
  if (Number.parseInt(process.versions.node, 10) >= 22 || vitest.interrupted.aborted) return nothing
  const node = await provideNode22(vitest.interrupted)
  const args = [...projects(['unit']), BESIDE_OTHERS, 'test/ledger']
  if (node) return runVitest({ ...vitest, node, args, output, niceness: NICENESS })
  say('Node 22 could not be obtained: the ledger was tested on this Node only.')
  return process.env.CI ? { passed: 0, failed: 1 } : nothing
}

let runs = 0

/** What it prints goes to our own output, or into the file `output`. */
async function runVitest(options) {
  const { args, env, dir, interrupted, output, node = process.execPath, niceness = 0 } = options
  if (interrupted.aborted) return { passed: 0, failed: 1 }
  const out = output === undefined ? 'inherit' : openSync(output, 'w')
  runs += 1
  const report = join(dir, `report-${runs}.json`)
  const vitest = inRoot('node_modules', 'vitest', 'vitest.mjs')
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`]
  const child = spawn(node, [vitest, 'run', ...reporters, ...args], {
    cwd: ROOT,
    // What the tests put into the temporary folder goes with ours, also when they are interrupted.
    env: { ...process.env, ...env, TMPDIR: dir },
    // A process group of its own: vitest's workers outlive it when it is interrupted, and so would
    // the gateways that they have started.
    detached: true,
    stdio: ['ignore', out, out],
  })
  if (output !== undefined) closeSync(out)
  await once(child, 'spawn') // Rejects where it could not be started: then there is no group either.
  const group = -child.pid
  guard(group)
  setPriority(child.pid, Math.min(getPriority() + niceness, constants.priority.PRIORITY_LOW))
  const exited = new Promise((resolve) => child.once('exit', (code) => resolve(code ?? 1)))
  interrupted.addEventListener('abort', () => void endProcess(group, exited, 10_000))
  const code = await exited
  signalProcess(group, 'SIGKILL')
  unguard(group)
  if (interrupted.aborted && output === undefined) say(interrupted.reason.message)
  return countOf(report, code)
}
