/** Where the time goes: V8's CPU profiles, cut to the measured rounds of a row, as a table of shares. */
import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { median } from './statistics.mjs'

/** In percent of the time that was not idle. What is below it is added up as "the rest". */
const LEAST_ROOM = 2
const LEAST_FUNCTION = 0.5
const FUNCTIONS = 6
/** A process that a row does not use is idle but for its timers. */
const LEAST_BUSY = 2
/**
 * A thread that waits, for a disk or for a CPU, takes no samples. One sample stands for two intervals at most, so that
 * such waiting does not count as work.
 */
const MOST_US = 2000
const REST = 'the rest'
const NATIVE = 'native code outside of functions'

/**
 * A part of a V8 CPU profile.
 *
 * @typedef {object} Node
 * @property {number} id
 * @property {CallFrame} callFrame
 * @property {number[]} [children]
 *
 * @typedef {{ functionName: string, url: string, lineNumber: number }} CallFrame
 * @typedef {{ nodes: Node[], samples: number[], timeDeltas: number[], startTime: number }} Profile
 * @typedef {import('./rounds.mjs').Round} Round
 * @typedef {{ room: string, us: number, functions: Map<string, number> }} Room
 */

/**
 * The arguments by which a process of Node.js writes its profile to a folder; none without one.
 * @param {string | undefined} dir
 * @returns {(name: string) => string[]}
 */
export function profilerTo(dir) {
  if (!dir) return () => []
  const folder = resolve(dir)
  mkdirSync(folder, { recursive: true })
  return (name) => ['--cpu-prof', `--cpu-prof-dir=${folder}`, `--cpu-prof-name=${name}.cpuprofile`]
}

/**
 * One table for each row and each process that was busy in its rounds, or, of what has none, while it lived.
 * @param {string} dir
 * @param {readonly { title: string, rounds?: readonly Round[] }[]} rows
 */
export function renderProfiles(dir, rows) {
  const files = readdirSync(dir).filter((name) => name.endsWith('.cpuprofile'))
  const profiles = files.map((file) => ({
    process: basename(file, '.cpuprofile'),
    profile: /** @type {Profile} */ (JSON.parse(readFileSync(join(dir, file), 'utf8'))),
  }))
  return rows
    .flatMap(({ title, rounds }) =>
      profiles.map(({ process, profile }) => tableOf(title, process, profile, rounds)),
    )
    .filter((table) => table !== undefined)
    .join('\n\n')
}

/**
 * @param {string} title
 * @param {string} process
 * @param {Profile} profile
 * @param {readonly Round[]} [rounds]
 */
function tableOf(title, process, profile, rounds) {
  const own = selfTimes(profile, rounds)
  const rooms = roomsOf(profile.nodes, own)
  const all = rooms.reduce((sum, { us }) => sum + us, 0)
  const busy = rooms.filter(({ room }) => room !== '(idle)')
  const busyUs = busy.reduce((sum, { us }) => sum + us, 0)
  const busyShare = (100 * busyUs) / all
  if (!(busyShare >= LEAST_BUSY)) return undefined
  const share = (/** @type {number} */ us) => (100 * us) / busyUs
  const cost = costOf(process.startsWith('gateway') ? 'gateway' : 'load', rounds)
  const lines = withRest(busy, (us) => share(us) >= LEAST_ROOM).map(({ room, us, functions }) => {
    const each = cost === undefined ? '' : ` ${((share(us) / 100) * cost).toFixed(1)} |`
    return `| ${share(us).toFixed(1)} % |${each} ${room} | ${mostOf(functions, share)} |`
  })
  const costs = cost === undefined ? '' : `, ${cost.toFixed(0)} µs of CPU each`
  const head = cost === undefined ? ['| Share | Room | Most of it |', '|---|---|---|'] : WITH_COST
  return [
    `${title}: ${process}, busy ${busyShare.toFixed(0)} %${costs}`,
    '',
    ...head,
    ...lines,
  ].join('\n')
}

const WITH_COST = ['| Share | µs each | Room | Most of it |', '|---|---|---|---|']

/**
 * The process's CPU for each job, which the meter has seen, in µs; undefined where there is no rate.
 * @param {'gateway' | 'load'} name
 * @param {readonly Round[]} rounds
 */
function costOf(name, rounds = []) {
  if (rounds.length === 0) return undefined
  const costs = rounds.map(({ cpu, rate }) => (cpu[name] * 10_000) / rate)
  return costs.every(Number.isFinite) ? median(costs) : undefined
}

/**
 * @param {readonly Room[]} rooms
 * @param {(us: number) => boolean} isShown
 */
function withRest(rooms, isShown) {
  const small = rooms.filter(({ us }) => !isShown(us))
  const rest = { room: REST, us: small.reduce((sum, { us }) => sum + us, 0), functions: new Map() }
  for (const { room, us } of small) rest.functions.set(room, us)
  return [...rooms.filter(({ us }) => isShown(us)).sort((a, b) => b.us - a.us), rest]
}

/**
 * @param {Map<string, number>} functions
 * @param {(us: number) => number} share
 */
function mostOf(functions, share) {
  return [...functions]
    .filter(([, us]) => share(us) >= LEAST_FUNCTION)
    .sort((a, b) => b[1] - a[1])
    .slice(0, FUNCTIONS)
    .map(([name, us]) => `${name} ${share(us).toFixed(1)}`)
    .join(', ')
}

/**
 * µs by node, within the windows of the rounds.
 * @param {Profile} profile
 * @param {readonly Round[]} [rounds]
 */
function selfTimes({ samples, timeDeltas, startTime }, rounds) {
  const windows = rounds?.flatMap(({ window }) => window ?? [])
  /** @type {Map<number, number>} */
  const own = new Map()
  let at = startTime
  samples.forEach((id, index) => {
    const delta = timeDeltas[index] ?? 0
    at += delta
    if (windows && !windows.some(({ from, to }) => at >= from && at < to)) return
    own.set(id, (own.get(id) ?? 0) + Math.min(delta, MOST_US))
  })
  return own
}

/**
 * Adds up self time by room. What belongs to none, such as what is built into Node, belongs to its caller's.
 * @param {Node[]} nodes
 * @param {Map<number, number>} own
 */
function roomsOf(nodes, own) {
  const byId = new Map(nodes.map((node) => [node.id, node]))
  /** @type {Map<string, Room>} */
  const rooms = new Map()
  const visit = (
    /** @type {Node | undefined} */ node,
    /** @type {string | undefined} */ callers,
    /** @type {string} */ calling,
  ) => {
    if (node === undefined) return
    const given = roomOf(node.callFrame)
    const room = given ?? callers ?? fallbackOf(node.callFrame)
    const name = given === undefined && callers !== undefined ? calling : describe(node.callFrame)
    const us = own.get(node.id) ?? 0
    const entry = rooms.get(room) ?? { room, us: 0, functions: new Map() }
    rooms.set(room, entry)
    entry.us += us
    entry.functions.set(name, (entry.functions.get(name) ?? 0) + us)
    for (const child of node.children ?? [])
      visit(byId.get(child), given ?? (isLoop(node.callFrame) ? callers : room), name)
  }
  visit(nodes[0], undefined, '')
  return [...rooms.values()]
}

/** @type {[RegExp, string][]} */
const ROOMS = [
  [/\/dist\/ledger\/|\/node_modules\/(pg\b|@photostructure\/sqlite)/, 'ledger'],
  [/\/dist\/broker\/|\/node_modules\/(amqplib|buffer-more-ints)\//, 'AMQP'],
  [/\/dist\/schemas\/|\/node_modules\/(ajv|fast-uri)/, 'JSON and its schemas'],
  [/\/dist\/log|\/node_modules\/(pino|sonic-boom|quick-format|thread-stream)/, 'log'],
  [/\/dist\/telemetry\/|\/node_modules\/(prom-client|@opentelemetry)\//, 'telemetry'],
  [/\/dist\/http\/|\/node_modules\/(?!undici)|^node:_http|^node:internal\/http/, 'HTTP'],
  [/^node:(net$|internal\/stream_base_commons)/, 'sockets'],
]

/** @param {CallFrame} given */
function roomOf({ functionName, url }) {
  if (functionName === '(garbage collector)') return 'garbage collector'
  if (functionName === '(program)') return NATIVE
  if (functionName === '(idle)') return functionName
  const [, room] = ROOMS.find(([pattern]) => pattern.test(url)) ?? []
  if (room !== undefined) return room
  if (/\/bench\//.test(url)) return 'the load of the benchmark'
  const [, folder] = /\/dist\/([^/]+)/.exec(url) ?? []
  return folder
}

/** What runs promises and timers is nobody's caller. @param {CallFrame} given */
function isLoop({ functionName, url }) {
  return url === '' ? functionName === '(root)' || functionName === 'runMicrotasks' : LOOP.test(url)
}

const LOOP = /^node:internal\/(process\/task_queues|timers|async_hooks)/

/** @param {CallFrame} given */
function fallbackOf({ url }) {
  return url.startsWith('node:internal/streams') ? 'sockets' : 'event loop, promises, timers'
}

/** @param {CallFrame} given */
function describe({ functionName, url }) {
  const [, path = url] = /\/(?:dist|node_modules)\/(.*)/.exec(url) ?? []
  return `${functionName || '(anonymous)'}${path === '' ? '' : ` ${path}`}`
}
