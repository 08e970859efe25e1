import { createHash } from 'node:crypto'
import {
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { inRoot, ROOT } from './paths.mjs'
import { Refusal, say, waitingFor } from './process/progress.mjs'
import { run, tail } from './process/run.mjs'

/** The sources of the build: a change in any of them makes dist/ stale. */
const SOURCES = ['src', 'topology', 'tsconfig.json']
const STAMP = '.built'

export function isBuildStale(root = ROOT) {
  const stamp = join(root, 'dist', STAMP)
  if (!existsSync(stamp)) return true
  const builtAt = statSync(stamp).mtimeMs
  if (readFileSync(stamp, 'utf8') !== stampOf(root)) return true
  return SOURCES.some((name) => newestChange(join(root, name)) > builtAt)
}

/**
 * A hash of the lock file, and so of the versions that a build is made with. The date of the file says
 * nothing: each `npm install` rewrites it, and after one with `--omit=dev` there is nothing to build with.
 * @param {string} root
 */
function stampOf(root) {
  const lock = join(root, 'package-lock.json')
  const content = existsSync(lock) ? readFileSync(lock) : ''
  return `${createHash('sha256').update(content).digest('hex')}\n`
}

/**
 * The newest change of a file or folder below `path`. A folder changes when a file in it is deleted.
 * @param {string} path
 * @returns {number}
 */
function newestChange(path) {
  const stats = statSync(path, { throwIfNoEntry: false })
  if (!stats) return 0
  const below = stats.isDirectory() ? readdirSync(path) : []
  return Math.max(stats.mtimeMs, ...below.map((name) => newestChange(join(path, name))))
}

/** @param {AbortSignal} [signal] */
export async function build(signal) {
  say('Building (tsc -p src, and the console with Vite).')
  const startedAt = new Date()
  // Built beside the old build, which stays whole until the new one is complete: a gateway may be running
  // from it.
  const fresh = inRoot(`dist.${process.pid}`)
  try {
    const versions = stampOf(ROOT)
    await waitingFor('the build', () => compileAll(fresh, signal))
    writeStamp(fresh, startedAt, versions)
    rmSync(inRoot('dist'), { recursive: true, force: true })
    renameSync(fresh, inRoot('dist'))
  } finally {
    rmSync(fresh, { recursive: true, force: true })
  }
}

/**
 * The gateway beside the console: neither needs the other.
 * @param {string} fresh
 * @param {AbortSignal} [signal]
 */
async function compileAll(fresh, signal) {
  const config = join('src', 'console', 'vite.config.mjs')
  const outDir = join(fresh, 'console')
  const commands = [
    ['tsc', '-p', 'src', '--outDir', fresh],
    ['vite', 'build', '--config', config, '--outDir', outDir, '--logLevel', 'warn'],
  ]
  const runs = commands.map(([name = '', ...args]) =>
    run(inRoot('node_modules', '.bin', name), args, { cwd: ROOT, signal }),
  )
  await Promise.allSettled(runs)
  for (const { code, output } of await Promise.all(runs)) {
    if (code !== 0) throw new Refusal(`the build failed:\n${tail(output)}`)
  }
}

/**
 * Dated at the build's start: a source that is saved during the build is newer and causes a rebuild.
 * @param {string} folder
 * @param {Date} startedAt
 * @param {string} versions
 */
function writeStamp(folder, startedAt, versions) {
  const stamp = join(folder, STAMP)
  writeFileSync(stamp, versions)
  utimesSync(stamp, startedAt, startedAt)
}
