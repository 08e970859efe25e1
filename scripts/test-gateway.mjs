import { symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { inRoot } from './paths.mjs'

/** These look for files of their own beside themselves. */
const NOT_BUNDLED = [/^@photostructure\/sqlite/, /^pino/]

/** So do two modules of ours: they find theirs where they were built. */
const AT_HOME = {
  name: 'at-home',
  transform: {
    filter: { code: 'import.meta.url' },
    handler: (code, id) => code.replaceAll('import.meta.url', `'${pathToFileURL(id)}'`),
  },
}

/**
 * The built gateway in few files, for the tests that start one in a process of its own. They do so 140
 * times, and most of what a start takes is to load 700 modules: 0.8 s of CPU, and 0.5 s from this. The
 * tests of the command line, of `npm start` and of the package run what is shipped.
 */
export async function bundleGateway(dir) {
  const { rolldown } = await import('rolldown')
  const input = inRoot('dist', 'main.js')
  const bundle = await rolldown({
    ...{ input, platform: 'node', external: NOT_BUNDLED, plugins: [AT_HOME] },
    // Of dependencies, which are as they are.
    logLevel: 'silent',
  })
  try {
    await bundle.write({ dir: join(dir, 'gateway'), entryFileNames: 'main.js' })
  } finally {
    await bundle.close()
  }
  symlinkSync(inRoot('node_modules'), join(dir, 'node_modules'))
  return join(dir, 'gateway', 'main.js')
}
