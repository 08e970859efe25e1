import { mkdirSync, writeFileSync } from 'node:fs'
import { inRoot } from '../paths.mjs'
import { waitingFor } from '../process/progress.mjs'
import { run } from '../process/run.mjs'

/**
 * Returns the path of a Node 22 from the npm registry, whose package is just the binary; or undefined.
 * @param {AbortSignal} signal
 */
export async function provideNode22(signal) {
  const name = `node-${process.platform}-${process.arch}`
  const folder = inRoot('.tmp', 'node-22')
  const node = `${folder}/node_modules/${name}/bin/node`
  if (await runs(node)) return node
  mkdirSync(folder, { recursive: true })
  writeFileSync(`${folder}/package.json`, '{ "private": true }\n')
  const args = ['install', '--no-audit', '--no-fund', '--loglevel=error', `${name}@22`]
  await waitingFor('npm to fetch Node 22', () => run('npm', args, { cwd: folder, signal }))
  return (await runs(node)) ? node : undefined
}

/**
 * Whether it runs: an interrupted installation leaves half a binary.
 * @param {string} node
 */
async function runs(node) {
  return (await run(node, ['--version'])).code === 0
}
