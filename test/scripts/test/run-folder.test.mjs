import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { makeRunFolder } from '../../../scripts/test/run-folder.mjs'

const BYTES = 4096
/** More than any machine has. */
const TOO_MANY = 2 ** 50
const hasMemory =
  process.platform === 'linux' &&
  readFileSync('/proc/mounts', 'utf8').includes(' /dev/shm tmpfs rw')
/** Runs a command in a mount namespace of its own, so that what it mounts is gone with it. */
const unshared = (command) =>
  spawnSync('unshare', ['--map-root-user', '--mount', 'sh', '-ec', command], { encoding: 'utf8' })
const mayMount = unshared('mount -t tmpfs tmpfs /mnt').status === 0

/** A new folder in `parent`, which is removed after the test. */
function newFolder(parent) {
  const dir = mkdtempSync(join(parent, 'ojs-memory-'))
  onTestFinished(() => rmSync(dir, { recursive: true }))
  return dir
}

/** The folder in which `makeRunFolder` makes one. */
function placeOf(...args) {
  const dir = makeRunFolder(...args)
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }))
  expect(statSync(dir)).toMatchObject({ uid: process.getuid(), mode: 0o40_700 })
  return dirname(dir)
}

beforeEach(() => {
  // `npm test` sets it for its tests.
  vi.stubEnv('TMPDIR', '')
  onTestFinished(() => vi.unstubAllEnvs())
})

describe.runIf(hasMemory)('on a machine with shared memory, the folder of a test run', () => {
  test('is made there', () => {
    const memory = newFolder('/dev/shm')
    expect(placeOf(BYTES, memory)).toBe(memory)
  })

  test('is made on disk where there is too little of it', () => {
    expect(placeOf(TOO_MANY, newFolder('/dev/shm'))).toBe(tmpdir())
  })

  test('is made in TMPDIR if that is set', () => {
    const dir = newFolder(tmpdir())
    vi.stubEnv('TMPDIR', dir)
    expect(placeOf(BYTES, newFolder('/dev/shm'))).toBe(dir)
  })

  test('takes the place of one whose run was killed, and of no other', () => {
    const memory = newFolder('/dev/shm')
    const { pid } = spawnSync('true')
    const names = [
      `ojs-rabbitmq-test-${pid}-a`,
      `ojs-rabbitmq-test-${process.pid}-b`,
      `other-${pid}-c`,
    ]
    for (const name of names) mkdirSync(join(memory, name))
    makeRunFolder(BYTES, memory)
    expect(names.filter((name) => existsSync(join(memory, name)))).toEqual(names.slice(1))
  })
})

test.runIf(mayMount)(
  'the folder of a test run is made on disk where memory is mounted noexec, and nothing is left there',
  () => {
    const memory = newFolder(tmpdir())
    const module = new URL('../../../scripts/test/run-folder.mjs', import.meta.url)
    const code = `import('${module}').then(({ makeRunFolder }) =>
      console.log(makeRunFolder(${BYTES}, '${memory}')))`
    const { stdout } = unshared(`mount -t tmpfs -o noexec tmpfs '${memory}'
      '${process.execPath}' -e "${code}"
      ls '${memory}'`)
    const [dir, ...left] = stdout.trim().split('\n')
    expect({ place: dirname(dir), left }).toEqual({ place: tmpdir(), left: [] })
    rmSync(dir, { recursive: true })
  },
)

test('the folder of a test run is made on disk where there is no shared memory', () => {
  expect(placeOf(BYTES, '/no/such/folder')).toBe(tmpdir())
  expect(placeOf(BYTES, newFolder(tmpdir()))).toBe(tmpdir())
})
