import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { takeLock } from '../../scripts/lock.mjs'

const dir = mkdtempSync(join(tmpdir(), 'ojs-lock-'))
const file = join(dir, 'data', 'start.lock')
afterAll(() => rmSync(dir, { recursive: true, force: true }))

test('the lock of a live process is respected until it is released', () => {
  const lock = takeLock(file, [process.pid])
  expect(takeLock(file, [process.pid])).toEqual({ holder: process.pid, isEnding: false })
  lock.release()
  takeLock(file, [process.pid]).release()
})

test('a lock whose owner is gone but whose guardian is not is about to end', async () => {
  takeLock(file, [await pidOfTheDead(), process.pid])
  expect(takeLock(file, [process.pid])).toEqual({ holder: process.pid, isEnding: true })
  rmSync(file)
})

test('the lock of a dead process is ignored', async () => {
  takeLock(file, [await pidOfTheDead()])
  const lock = takeLock(file, [process.pid])
  expect(lock.holder).toBeUndefined()
  // And is one of a live process by now.
  expect(takeLock(file, [process.pid])).toEqual({ holder: process.pid, isEnding: false })
  lock.release()
})

test('a lock that cannot be written is told, and not tried for ever', () => {
  expect(() => takeLock(join(dir, 'x'.repeat(300)), [process.pid])).toThrow('ENAMETOOLONG')
})

test.runIf(process.platform === 'linux')('so is one whose pid was given to somebody else', () => {
  takeLock(file, [process.pid])
  writeFileSync(file, readFileSync(file, 'utf8').replace(/ \d+/, ' 1'))
  expect(takeLock(file, [process.pid]).holder).toBeUndefined()
  rmSync(file)
})

async function pidOfTheDead() {
  const child = spawn('true')
  await new Promise((resolve) => child.once('close', resolve))
  return child.pid
}
