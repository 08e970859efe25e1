import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { type OutputChunk, rolldown } from 'rolldown'
import { afterAll } from 'vitest'

export const ROOT = resolve(import.meta.dirname, '..', '..')
export const SDK = join(ROOT, 'src', 'sdk', 'index.ts')

/** Creates a temporary folder, which is removed after all tests of the calling file. */
export function scratchDir(): string {
  const dir = mkdtempSync(join(tmpdir(), 'ojs-sdk-'))
  afterAll(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

/** Bundles `input` with all its imports into one file. Throws when the bundler warns. */
export async function bundled(
  input: string,
  platform: 'browser' | 'node',
  format: 'esm' | 'iife' = 'esm',
): Promise<OutputChunk> {
  const bundle = await rolldown({
    input,
    platform,
    onLog(level, { message }) {
      if (level === 'warn') throw new Error(message)
    },
  })
  try {
    const { output } = await bundle.generate({ format, name: 'sdk' })
    const [chunk, ...others] = output
    if (others.length > 0) throw new Error('the bundle has more than one file')
    return chunk
  } finally {
    await bundle.close()
  }
}

/** Type-checks the files with our own tsconfig, without libraries. Throws with the compiler's output. */
export function typeCheck(dir: string, files: readonly string[], options: object): void {
  const project = {
    extends: join(ROOT, 'tsconfig.json'),
    compilerOptions: {
      allowImportingTsExtensions: true,
      rewriteRelativeImportExtensions: false,
      typeRoots: [join(ROOT, 'node_modules', '@types')],
      // `npm run check` checks the libraries; doing so here too would double the time.
      skipLibCheck: true,
      ...options,
    },
    include: [],
    files,
  }
  writeFileSync(join(dir, 'tsconfig.json'), JSON.stringify(project))
  try {
    const tsc = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc')
    execFileSync(process.execPath, [tsc, '-p', dir], { encoding: 'utf8' })
  } catch (error) {
    throw new Error((error as { stdout: string }).stdout, { cause: error })
  }
}
