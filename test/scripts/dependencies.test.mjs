import { execFileSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { missingDependencies } from '../../scripts/dependencies.mjs'

let folder

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ojs-dependencies-'))
  write('package.json', { dependencies: { a: '^1.0.0' }, devDependencies: { '@s/b': '^2.0.0' } })
  write('node_modules/a/package.json', { version: '1.2.0' })
  write('node_modules/@s/b/package.json', { version: '2.0.0' })
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

function write(path, json) {
  mkdirSync(dirname(join(folder, path)), { recursive: true })
  writeFileSync(join(folder, path), JSON.stringify(json))
}

test('no dependency is missing when all are installed', () => {
  expect(missingDependencies(folder, { dev: true })).toEqual([])
})

test('a development dependency is missing only when development dependencies are needed', () => {
  rmSync(join(folder, 'node_modules/@s'), { recursive: true })
  expect(missingDependencies(folder, { dev: true })).toEqual(['@s/b'])
  expect(missingDependencies(folder, { dev: false })).toEqual([])
})

test('a dependency is missing in another version than the locked one', () => {
  write('package-lock.json', { packages: { 'node_modules/a': { version: '1.3.0' } } })
  expect(missingDependencies(folder, { dev: true })).toEqual(['a'])
})

// Each version of npm writes the lock file differently, and git would show the change in a clone.
test('missing dependencies are installed without a change of the lock file', () => {
  cpSync(resolve('scripts'), join(folder, 'scripts'), { recursive: true })
  rmSync(join(folder, 'node_modules'), { recursive: true })
  write('package.json', { dependencies: { c: 'file:c' } })
  write('package-lock.json', { lockfileVersion: 3, packages: {} })
  write('c/package.json', { name: 'c', version: '1.0.0' })
  const lock = readFileSync(join(folder, 'package-lock.json'), 'utf8')
  const script = "import('./scripts/dependencies.mjs').then((m) => m.ensureDependencies({}))"
  execFileSync(process.execPath, ['-e', script], { cwd: folder, stdio: 'ignore' })
  expect(existsSync(join(folder, 'node_modules/c/package.json'))).toBe(true)
  expect(readFileSync(join(folder, 'package-lock.json'), 'utf8')).toBe(lock)
})
