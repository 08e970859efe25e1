import { existsSync, readFileSync } from 'node:fs'
import { inRoot, ROOT } from './paths.mjs'
import { Refusal, say, waitingFor } from './process/progress.mjs'
import { run, tail } from './process/run.mjs'

/**
 * What is read of package.json and package-lock.json.
 *
 * @typedef {object} Manifest
 * @property {string} [version]
 * @property {Record<string, string>} [dependencies]
 * @property {Record<string, string>} [devDependencies]
 * @property {Record<string, { version?: string }>} [packages]
 */

/**
 * Runs `npm install` if node_modules lacks something that package.json asks for. Not `npm ci`: the lock file
 * may name binaries for other platforms that a registry mirror does not have. `--no-save` keeps the lock file
 * unchanged: each version of npm writes it differently, and a fresh clone would look modified.
 * @param {{ dev: boolean, signal: AbortSignal }} options
 */
export async function ensureDependencies({ dev, signal }) {
  const missing = missingDependencies(inRoot(), { dev })
  if (missing.length === 0) return
  say(`Installing ${missing.length} missing npm packages.`)
  const quiet = ['--no-audit', '--no-fund', '--loglevel=error']
  const args = ['install', '--no-save', ...quiet, '--include=dev']
  const result = await waitingFor('npm install', () => run('npm', args, { cwd: ROOT, signal }))
  if (result.code !== 0) throw new Refusal(`npm install failed:\n${tail(result.output)}`)
}

/**
 * Direct dependencies of `folder` that are not in its node_modules in the locked version.
 * @param {string} folder
 * @param {{ dev: boolean }} options
 */
export function missingDependencies(folder, { dev }) {
  const manifest = readJson(`${folder}/package.json`)
  const names = Object.keys({ ...manifest.dependencies, ...(dev ? manifest.devDependencies : {}) })
  const lock = `${folder}/package-lock.json`
  const locked = (existsSync(lock) ? readJson(lock).packages : undefined) ?? {}
  return names.filter((name) => {
    const file = `${folder}/node_modules/${name}/package.json`
    if (!existsSync(file)) return true
    const wanted = locked[`node_modules/${name}`]?.version
    return wanted !== undefined && readJson(file).version !== wanted
  })
}

/**
 * @param {string} file
 * @returns {Manifest}
 */
function readJson(file) {
  return JSON.parse(readFileSync(file, 'utf8'))
}
