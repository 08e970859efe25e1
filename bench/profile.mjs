import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const TOP = 60

/**
 * A part of a V8 CPU profile.
 *
 * @typedef {object} Node
 * @property {number} id
 * @property {{ functionName: string, url: string, lineNumber: number }} callFrame
 * @property {number[]} [children]
 */

/**
 * Lists the functions of a V8 CPU profile by self time, with and without their callees, in percent of the
 * time that was not idle. Samples are wall time: a system call that waits counts as busy.
 * @param {string} file
 */
export function summariseProfile(file) {
  /** @type {{ nodes: Node[], samples: number[], timeDeltas: number[] }} */
  const { nodes, samples, timeDeltas } = JSON.parse(readFileSync(file, 'utf8'))
  /** @type {Map<number, number>} */
  const own = new Map()
  samples.forEach((id, index) => {
    own.set(id, (own.get(id) ?? 0) + (timeDeltas[index] ?? 0))
  })
  const totals = addUp(nodes, own)
  const idle = totals.get('(idle)')?.self ?? 0
  const all = totals.get('(root)')?.total ?? 0
  const lines = [...totals]
    .filter(([name]) => name !== '(idle)' && name !== '(root)')
    .sort((a, b) => b[1].self - a[1].self)
    .slice(0, TOP)
    .map(([name, { self, total }]) => `${share(self)} ${share(total)}   ${name}`)
  /** @param {number} time */
  function share(time) {
    return `${((100 * time) / (all - idle)).toFixed(1).padStart(6)} %`
  }
  const rooms = [...roomsOf(nodes, own)]
    .filter(([room, time]) => room !== '(idle)' && time > (all - idle) / 200)
    .sort((a, b) => b[1] - a[1])
    .map(([room, time]) => `${share(time)}   ${room}`)
  const head = `idle ${((100 * idle) / all).toFixed(0)} %`
  return [head, ...rooms, '    self    total', ...lines].join('\n')
}

/**
 * Adds up self time by package or folder of the project: what reads as an answer to "where does the time go?". What is
 * built into Node belongs to whoever called it, as a statement of SQLite does.
 * @param {Node[]} nodes
 * @param {Map<number, number>} own
 */
function roomsOf(nodes, own) {
  const byId = new Map(nodes.map((node) => [node.id, node]))
  /** @type {Map<string, number>} */
  const rooms = new Map()
  const visit = (/** @type {Node | undefined} */ node, /** @type {string} */ caller) => {
    if (node === undefined) return
    const room = roomOf(node.callFrame) ?? caller
    rooms.set(room, (rooms.get(room) ?? 0) + (own.get(node.id) ?? 0))
    for (const child of node.children ?? []) visit(byId.get(child), room)
  }
  visit(nodes[0], '(root)')
  return rooms
}

/** @param {{ functionName: string, url: string }} given */
function roomOf({ functionName, url }) {
  if (!url) return functionName.startsWith('(') ? functionName : undefined
  const [, installed] = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url) ?? []
  if (installed) return installed
  const [, folder] = /\/dist\/([^/]+\/[^/]+)/.exec(url) ?? []
  return folder ?? url
}

/**
 * Adds up self and total time by function. A function that is on the stack twice counts once.
 * @param {Node[]} nodes
 * @param {Map<number, number>} own
 */
function addUp(nodes, own) {
  const byId = new Map(nodes.map((node) => [node.id, node]))
  /** @type {Map<string, { self: number, total: number }>} */
  const totals = new Map()
  /** @type {(node: Node | undefined, onStack: Set<string>) => number} */
  const visit = (node, onStack) => {
    if (node === undefined) return 0
    const name = describe(node.callFrame)
    const entry = totals.get(name) ?? { self: 0, total: 0 }
    totals.set(name, entry)
    const self = own.get(node.id) ?? 0
    const isOutermost = !onStack.has(name)
    if (isOutermost) onStack.add(name)
    let total = self
    for (const child of node.children ?? []) total += visit(byId.get(child), onStack)
    if (isOutermost) {
      onStack.delete(name)
      entry.total += total
    }
    entry.self += self
    return total
  }
  visit(nodes[0], new Set())
  return totals
}

/** @param {string} dir */
export function profilesIn(dir) {
  return readdirSync(dir)
    .filter((name) => name.endsWith('.cpuprofile'))
    .map((name) => join(dir, name))
}

/** @param {{ functionName: string, url: string, lineNumber: number }} given */
function describe({ functionName, url, lineNumber }) {
  if (!url) return functionName || '(anonymous)'
  const path = url.startsWith('file:') ? fileURLToPath(url) : url
  return `${functionName || '(anonymous)'}  ${path}:${lineNumber + 1}`
}
