import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { isBuildStale } from '../../scripts/build.mjs'

const MINUTE_MS = 60_000
let root

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'ojs-build-'))
  for (const folder of ['src/job', 'topology', 'dist'])
    mkdirSync(join(root, folder), { recursive: true })
  for (const file of ['src/job/job.ts', 'topology/topology.json', 'package-lock.json']) write(file)
  for (const path of [
    'src/job/job.ts',
    'src/job',
    'src',
    'topology/topology.json',
    'topology',
    'package-lock.json',
  ]) {
    changedAt(path, -2 * MINUTE_MS)
  }
  write('dist/.built')
  changedAt('dist/.built', -MINUTE_MS)
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

function write(path) {
  writeFileSync(join(root, path), '')
}

function changedAt(path, offsetMs) {
  const time = new Date(Date.now() + offsetMs)
  utimesSync(join(root, path), time, time)
}

test('a build newer than everything it is made from is not stale', () => {
  expect(isBuildStale(root)).toBe(false)
})

test.each(['src/job/job.ts', 'topology/topology.json', 'package-lock.json'])(
  'a change in %s makes it stale',
  (path) => {
    changedAt(path, 0)
    expect(isBuildStale(root)).toBe(true)
  },
)

test('a deleted source file makes it stale', () => {
  rmSync(join(root, 'src/job/job.ts'))
  expect(isBuildStale(root)).toBe(true)
})

test('no build is stale', () => {
  rmSync(join(root, 'dist'), { recursive: true })
  expect(isBuildStale(root)).toBe(true)
})
