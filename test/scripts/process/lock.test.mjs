import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, test } from 'vitest'
import { takeLock } from '../../../scripts/process/lock.mjs'
import { Refusal } from '../../../scripts/process/progress.mjs'

const dir = mkdtempSync(join(tmpdir(), 'ojs-lock-'))
const file = join(dir, 'data', 'start.lock')
afterAll(() => rmSync(dir, { recursive: true, force: true }))

test('takeLock respects the lock of a live process until it is released', () => {
  const lock = takeLock(file, [process.pid])
  expect(takeLock(file, [process.pid])).toEqual({ holder: process.pid, isEnding: false })
  lock.release()
  takeLock(file, [process.pid]).release()
})

test('takeLock reports a lock as ending when its owner is gone and its guardian is not', async () => {
  takeLock(file, [await pidOfTheDead(), process.pid])
  expect(takeLock(file, [process.pid])).toEqual({ holder: process.pid, isEnding: true })
  rmSync(file)
})

test('takeLock takes over the lock of a dead process', async () => {
  takeLock(file, [await pidOfTheDead()])
  const lock = takeLock(file, [process.pid])
  expect(lock.holder).toBeUndefined()
  // The lock is now that of a live process.
  expect(takeLock(file, [process.pid])).toEqual({ holder: process.pid, isEnding: false })
  lock.release()
})

test('takeLock throws when the lock cannot be written, instead of trying for ever', () => {
  expect(() => takeLock(join(dir, 'x'.repeat(300)), [process.pid])).toThrow('ENAMETOOLONG')
})

test('takeLock says in one line which folder cannot be written', () => {
  writeFileSync(join(dir, 'taken'), '')
  const taking = () => takeLock(join(dir, 'taken', 'start.lock'), [process.pid])
  expect(taking).toThrow(Refusal)
  expect(taking).toThrow(`${join(dir, 'taken')} cannot be written: E`)
})

test.runIf(process.platform === 'linux')(
  'takeLock takes over a lock whose pid belongs to another process now',
  () => {
    takeLock(file, [process.pid])
    writeFileSync(file, readFileSync(file, 'utf8').replace(/ \d+/, ' 1'))
    expect(takeLock(file, [process.pid]).holder).toBeUndefined()
    rmSync(file)
  },
)

/** Takes one lock after another at given times, and prints which of them it got. */
const STARTER = `
  import { takeLock } from ${JSON.stringify(fileURLToPath(new URL('../../../scripts/process/lock.mjs', import.meta.url)))}
  const [dir, rounds, startAt] = process.argv.slice(1)
  let got = ''
  for (let round = 0; round < Number(rounds); round++) {
    while (Date.now() < Number(startAt) + round * 10);
    got += takeLock(dir + '/' + round, [process.pid]).release ? 'x' : '-'
  }
  process.stdout.write(got)
  process.stdin.resume()
`

test('takeLock gives a stale lock to one of two processes that find it at the same time', async () => {
  const rounds = 100
  const ofTheDead = `${await pidOfTheDead()}\n`
  const locks = mkdtempSync(join(dir, 'stale-'))
  for (let round = 0; round < rounds; round++) writeFileSync(join(locks, `${round}`), ofTheDead)
  const startAt = String(Date.now() + 500)
  const starters = [1, 2].map(() =>
    spawn(
      process.execPath,
      ['--input-type=module', '-e', STARTER, locks, String(rounds), startAt],
      {
        stdio: ['pipe', 'pipe', 'inherit'],
      },
    ),
  )
  // Both processes live until both have printed, because the lock of an ended process is stale.
  const [one, other] = await Promise.all(starters.map((starter) => said(starter, rounds)))
  for (const { stdin } of starters) stdin.end()
  for (let round = 0; round < rounds; round++) {
    expect([`${round}: x-`, `${round}: -x`]).toContain(`${round}: ${one[round]}${other[round]}`)
  }
})

async function said({ stdout }, length) {
  let text = ''
  for await (const chunk of stdout) {
    text += chunk
    if (text.length >= length) return text
  }
  return text
}

async function pidOfTheDead() {
  const child = spawn('true')
  await new Promise((resolve) => child.once('close', resolve))
  return child.pid
}
