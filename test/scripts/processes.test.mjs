import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, expect, test, vi } from 'vitest'
import { endProcess, isAlive, signalProcess } from '../../scripts/processes.mjs'

const PROCESSES = resolve(import.meta.dirname, '../../scripts/processes.mjs')
const dir = mkdtempSync(join(tmpdir(), 'ojs-processes-'))
const started = []
afterAll(() => {
  for (const child of started) child.kill('SIGKILL')
  rmSync(dir, { recursive: true, force: true })
})

/** A shell that does `onTerm` at a SIGTERM; it listens when this resolves. */
async function startShell(onTerm) {
  const script = `trap '${onTerm}' TERM; echo; while :; do sleep 0.05; done`
  const child = spawn('sh', ['-c', script], { stdio: ['ignore', 'pipe', 'ignore'] })
  started.push(child)
  const exited = once(child, 'exit')
  await once(child.stdout, 'data')
  return { pid: child.pid, exited, child }
}

test('a process that complies is not killed, one that does not is', async () => {
  const [polite, deaf] = await Promise.all([startShell('exit 3'), startShell('')])
  await endProcess(polite.pid, polite.exited, 60_000)
  expect(await polite.exited).toEqual([3, null])
  await endProcess(deaf.pid, deaf.exited, 50)
  expect(isAlive(deaf.pid)).toBe(false)
  expect(await deaf.exited).toEqual([null, 'SIGKILL'])
  expect(signalProcess(deaf.pid, 'SIGTERM')).toBe(false)
})

test('what is guarded ends with who guards it, the last one first; what is not goes on', async () => {
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
  ['runs its command when it is let go', 'letGo()', true],
  ['never runs it where its starter is gone before', 'process.kill(process.pid, "SIGKILL")', false],
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
  // Both have ended then: nobody has its output any more.
  owner.stdout.resume()
  await once(owner, 'close')
  expect(existsSync(file)).toBe(isRun)
})

test("a process that is somebody else's is alive", () => {
  const kill = vi.spyOn(process, 'kill').mockImplementation(() => {
    throw Object.assign(new Error('kill EPERM'), { code: 'EPERM' })
  })
  expect(isAlive(1)).toBe(true)
  expect(() => signalProcess(1, 'SIGTERM')).toThrow('EPERM')
  kill.mockRestore()
})
