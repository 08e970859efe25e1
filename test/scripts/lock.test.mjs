import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, test } from 'vitest'
import { takeLock } from '../../scripts/lock.mjs'
import { Refusal } from '../../scripts/progress.mjs'

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

test('a folder that cannot be written is told in one line', () => {
  writeFileSync(join(dir, 'taken'), '')
  const taking = () => takeLock(join(dir, 'taken', 'start.lock'), [process.pid])
  expect(taking).toThrow(Refusal)
  expect(taking).toThrow(`${join(dir, 'taken')} cannot be written: E`)
})

test.runIf(process.platform === 'linux')('so is one whose pid was given to somebody else', () => {
  takeLock(file, [process.pid])
  writeFileSync(file, readFileSync(file, 'utf8').replace(/ \d+/, ' 1'))
  expect(takeLock(file, [process.pid]).holder).toBeUndefined()
  rmSync(file)
})

/** Takes lock after lock, each when the others do, and says which of them it got. */
const STARTER = `
  import { takeLock } from ${JSON.stringify(fileURLToPath(new URL('../../scripts/lock.mjs', import.meta.url)))}
  const [dir, rounds, startAt] = process.argv.slice(1)
  let got = ''
  for (let round = 0; round < Number(rounds); round++) {
    while (Date.now() < Number(startAt) + round * 10);
    got += takeLock(dir + '/' + round, [process.pid]).release ? 'x' : '-'
  }
  process.stdout.write(got)
  process.stdin.resume()
`

test('of two that find the same stale lock at once one takes it', async () => {
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
  // They live on until each has said it: the lock of who has ended is stale.
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
