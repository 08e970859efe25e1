import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, expect, test, vi } from 'vitest'
import { endProcess, isAlive, signalProcess } from '../../../scripts/process/processes.mjs'

const PROCESSES = resolve(import.meta.dirname, '../../../scripts/process/processes.mjs')
const dir = mkdtempSync(join(tmpdir(), 'ojs-processes-'))
const started = []
afterAll(() => {
  for (const child of started) child.kill('SIGKILL')
  rmSync(dir, { recursive: true, force: true })
})

/** Starts a shell that runs `onTerm` on SIGTERM. Resolves once its trap is set. */
async function startShell(onTerm) {
  const script = `trap '${onTerm}' TERM; echo; while :; do sleep 0.05; done`
  const child = spawn('sh', ['-c', script], { stdio: ['ignore', 'pipe', 'ignore'] })
  started.push(child)
  const exited = once(child, 'exit')
  await once(child.stdout, 'data')
  return { pid: child.pid, exited, child }
}

test('endProcess kills only a process that does not end by itself', async () => {
  const [polite, deaf] = await Promise.all([startShell('exit 3'), startShell('')])
  await endProcess(polite.pid, polite.exited, 60_000)
  expect(await polite.exited).toEqual([3, null])
  await endProcess(deaf.pid, deaf.exited, 50)
  expect(isAlive(deaf.pid)).toBe(false)
  expect(await deaf.exited).toEqual([null, 'SIGKILL'])
  expect(signalProcess(deaf.pid, 'SIGTERM')).toBe(false)
})

test('guard ends the processes of a dead owner, the last one first, and not those that unguard released', async () => {
  const log = join(dir, 'ended')
  const [first, last, released] = await Promise.all(
    ['first', 'last', 'released'].map((name) => startShell(`echo ${name} >> "${log}"; exit`)),
  )
  const guardian = `
    import { guard, unguard } from '${PROCESSES}'
    for (const pid of [${first.pid}, ${last.pid}, ${released.pid}]) guard(pid)
    unguard(${released.pid})
    console.log('guarding')
    setInterval(() => {}, 1000)`
  const owner = spawn(process.execPath, ['--input-type=module', '-e', guardian], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  started.push(owner)
  await once(owner.stdout, 'data')
  owner.kill('SIGKILL')
  await Promise.all([first.exited, last.exited])
  expect(readFileSync(log, 'utf8')).toBe('last\nfirst\n')
  expect(isAlive(released.pid)).toBe(true)
})

test.each([
  ['runs its command once it is let go', 'letGo()', true],
  [
    'never runs its command when its starter ends before',
    'process.kill(process.pid, "SIGKILL")',
    false,
  ],
])('a held process %s', async (name, then, isRun) => {
  const file = join(dir, name)
  const starter = `
    import { spawnHeld } from '${PROCESSES}'
    const { letGo } = spawnHeld('touch', ['${file}'], { output: 'inherit' })
    ${then}`
  const owner = spawn(process.execPath, ['--input-type=module', '-e', starter], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  started.push(owner)
  // The output closes when the owner and the held process have ended.
  owner.stdout.resume()
  await once(owner, 'close')
  expect(existsSync(file)).toBe(isRun)
})

test('isAlive is true for a process of another user', () => {
  const kill = vi.spyOn(process, 'kill').mockImplementation(() => {
    throw Object.assign(new Error('kill EPERM'), { code: 'EPERM' })
  })
  expect(isAlive(1)).toBe(true)
  expect(() => signalProcess(1, 'SIGTERM')).toThrow('EPERM')
  kill.mockRestore()
})
