import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { isBuildStale } from '../../scripts/build.mjs'

const MINUTE_MS = 60_000
const LOCK = '{"packages":{"node_modules/typescript":{"version":"1.0.0"}}}'
let root

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'ojs-build-'))
  for (const folder of ['src/job', 'topology', 'dist'])
    mkdirSync(join(root, folder), { recursive: true })
  for (const file of ['src/job/job.ts', 'topology/topology.json']) write(file)
  write('package-lock.json', LOCK)
  for (const path of ['src/job/job.ts', 'src/job', 'src', 'topology/topology.json', 'topology']) {
    changedAt(path, -2 * MINUTE_MS)
  }
  write('dist/.built', `${createHash('sha256').update(LOCK).digest('hex')}\n`)
  changedAt('dist/.built', -MINUTE_MS)
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

function write(path, content = '') {
  writeFileSync(join(root, path), content)
}

function changedAt(path, offsetMs) {
  const time = new Date(Date.now() + offsetMs)
  utimesSync(join(root, path), time, time)
}

test('a build newer than all its sources is not stale', () => {
  expect(isBuildStale(root)).toBe(false)
})

test.each(['src/job/job.ts', 'topology/topology.json'])(
  'a build is stale after a change in %s',
  (path) => {
    changedAt(path, 0)
    expect(isBuildStale(root)).toBe(true)
  },
)

test('a build is stale after another version was locked, but not after the lock file was written again', () => {
  write('package-lock.json', LOCK)
  changedAt('package-lock.json', 0)
  expect(isBuildStale(root)).toBe(false)
  write('package-lock.json', LOCK.replace('1.0.0', '1.0.1'))
  changedAt('package-lock.json', -2 * MINUTE_MS)
  expect(isBuildStale(root)).toBe(true)
})

test('a build is stale after a source file was deleted', () => {
  rmSync(join(root, 'src/job/job.ts'))
  expect(isBuildStale(root)).toBe(true)
})

test('a missing build is stale', () => {
  rmSync(join(root, 'dist'), { recursive: true })
  expect(isBuildStale(root)).toBe(true)
})
