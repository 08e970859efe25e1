import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
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

test('nothing is missing when all are there', () => {
  expect(missingDependencies(folder, { dev: true })).toEqual([])
})

test('development packages count only when they are needed', () => {
  rmSync(join(folder, 'node_modules/@s'), { recursive: true })
  expect(missingDependencies(folder, { dev: true })).toEqual(['@s/b'])
  expect(missingDependencies(folder, { dev: false })).toEqual([])
})

test('a package in another version than the locked one is missing', () => {
  write('package-lock.json', { packages: { 'node_modules/a': { version: '1.3.0' } } })
  expect(missingDependencies(folder, { dev: true })).toEqual(['a'])
})
