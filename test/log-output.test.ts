import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  closeSync,
  constants,
  mkdtempSync,
  openSync,
  readSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { LogOutput } from '../src/log-output.ts'
import { createLogger, redactUrls } from '../src/logger.ts'

const lostLine = (lines: number) => `lost ${lines}\n`
const keptIn = (text: string) => text.match(/^x+$/gm)?.length ?? 0
const lostIn = (text: string) => {
  const told = [...text.matchAll(/^lost (\d+)$/gm)]
  return told.reduce((sum, [, lines]) => sum + Number(lines), 0)
}
const numbered = (count: number) => Array.from({ length: count }, (_, i) => `line ${i}\n`)

describe('the output of log lines', () => {
  const cleanups: (() => void)[] = []
  afterEach(() => {
    for (const cleanup of cleanups.splice(0).reverse()) cleanup()
  })

  function open(path: string, flags: number): number {
    const fd = openSync(path, flags)
    cleanups.push(() => closeSync(fd))
    return fd
  }

  /** Both ends of a pipe. It takes 64 KiB, and answers EAGAIN until somebody reads. */
  function pipe(): { fd: number; read(): string; hangUp(): void } {
    const dir = mkdtempSync(join(tmpdir(), 'ojs-log-'))
    cleanups.push(() => rmSync(dir, { recursive: true }))
    const path = join(dir, 'pipe')
    execFileSync('mkfifo', [path])
    const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    const fd = open(path, constants.O_WRONLY | constants.O_NONBLOCK)
    let isOpen = true
    const hangUp = () => {
      if (isOpen) closeSync(reader)
      isOpen = false
    }
    cleanups.push(hangUp)
    return { fd, read: () => readAll(reader), hangUp }
  }

  /** The delays after which the output has tried again to write. */
  function retries(): () => unknown[] {
    const timers = vi.spyOn(globalThis, 'setTimeout')
    cleanups.push(() => timers.mockRestore())
    return () => timers.mock.calls.map(([, ms]) => ms)
  }

  /** Waits until no write is under way, and the outcome of the last one is handled. */
  async function written(): Promise<void> {
    await expect.poll(() => process.getActiveResourcesInfo()).not.toContain('FSReqCallback')
  }

  async function readUntil(read: () => string, isEnough: (text: string) => boolean) {
    let text = ''
    while (!isEnough(text)) {
      text += read()
      await sleep(5)
    }
    return text
  }

  it('writes every line in order without a flush', async () => {
    const { fd, read } = pipe()
    const lines = numbered(1_000)
    const output = new LogOutput({ fd, lostLine })
    for (const line of lines) output.write(line)
    const wanted = lines.join('')
    expect(await readUntil(read, (text) => text.length >= wanted.length)).toBe(wanted)
  })

  it('keeps a bounded number of lines for a reader that stalls, and reports the number of lost lines', async () => {
    const { fd, read } = pipe()
    const output = new LogOutput({ fd, lostLine, maxWaiting: 100_000 })
    const line = `${'x'.repeat(99)}\n`
    // The pipe takes 64 KiB.
    for (let i = 0; i < 200; i++) {
      for (let j = 0; j < 50; j++) output.write(line)
      await sleep(0)
    }
    const text = await readUntil(read, (so) => keptIn(so) + lostIn(so) >= 10_000)
    expect(keptIn(text) + lostIn(text)).toBe(10_000)
    // On a busy machine, some lines are lost before the pipe is full.
    expect(lostIn(text)).toBeGreaterThan(5_000)
    expect(text).toMatch(/lost \d+\n$/)
    output.write('and on it goes\n')
    await readUntil(read, (so) => so.includes('and on it goes'))
  })

  it('catches up with a reader that was slow for a moment', async () => {
    const { fd, read } = pipe()
    const output = new LogOutput({ fd, lostLine })
    const lines = 40_000
    for (let i = 0; i < lines; i++) output.write(`${'x'.repeat(99)}\n`)
    // 64 KiB every 5 ms: 62 reads, and as many again that come too early.
    let left = lines * 100
    let looks = 0
    await readUntil(
      () => {
        left -= read().length
        looks += 1
        return ''
      },
      () => left === 0,
    )
    expect(looks).toBeLessThan(500)
  })

  it('retries after a second on a full disk, and flushes without an error at the end of the process', async () => {
    const output = new LogOutput({ fd: open('/dev/full', constants.O_WRONLY), lostLine })
    const logger = createLogger('info', output)
    const delays = retries()
    logger.info({}, 'one')
    await expect.poll(delays).toContain(1_000)
    logger.info({}, 'two')
    output.flushSync()
  })

  it('writes waiting lines at the end of the process', () => {
    const { fd, read } = pipe()
    const output = new LogOutput({ fd, lostLine })
    output.write('one\n')
    output.write('two\n')
    output.flushSync()
    expect(read()).toContain('two\n')
  })

  it('writes the rest of a large write that is under way at the end of the process', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'ojs-log-'))
    cleanups.push(() => rmSync(dir, { recursive: true }))
    const [path, copy] = [join(dir, 'pipe'), join(dir, 'copy')]
    execFileSync('mkfifo', [path])
    const cat = spawn('cat', [path], { stdio: ['ignore', openSync(copy, 'w'), 'inherit'] })
    const held = openSync(path, constants.O_WRONLY)
    const fd = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK)
    const output = new LogOutput({ fd, lostLine })
    const lines = numbered(100_000).join('')
    output.write('first\n')
    output.write(lines)
    // Waits until the first line is out and one turn more: then a single write of the other lines has begun.
    while (statSync(copy).size === 0);
    await nextTurn()
    output.flushSync()
    for (const each of [held, fd]) closeSync(each)
    await once(cat, 'close')
    expect(statSync(copy).size).toBeGreaterThan(lines.length - 65_536)
  })

  it('writes nothing twice when a write is under way at the end of the process', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'ojs-log-'))
    cleanups.push(() => rmSync(dir, { recursive: true }))
    const path = join(dir, 'log')
    const { O_APPEND, O_CREAT, O_WRONLY } = constants
    const output = new LogOutput({ fd: open(path, O_APPEND | O_CREAT | O_WRONLY), lostLine })
    const lines = numbered(100_000).join('')
    output.write('first\n')
    output.write(lines)
    // Then a single write of the other lines has begun, or is in the file.
    while (statSync(path).size === 0) await nextTurn()
    await nextTurn()
    output.flushSync()
    await written()
    expect(statSync(path).size).toBe('first\n'.length + lines.length)
  })

  it('writes at the end of the process what a full pipe has not taken', async () => {
    const { fd, read } = pipe()
    const output = new LogOutput({ fd, lostLine })
    // Stops the retries, because flushSync cannot learn the outcome of a write that is under way.
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    cleanups.push(() => vi.useRealTimers())
    output.write('x'.repeat(100_000))
    await expect.poll(() => vi.getTimerCount()).toBe(1)
    const first = read()
    output.flushSync()
    expect(first.length + read().length).toBe(100_000)
  })

  it('retries ever more rarely on a pipe that nobody reads', async () => {
    const delays = retries()
    const output = new LogOutput({ fd: pipe().fd, lostLine })
    output.write('x'.repeat(200_000))
    await expect.poll(delays).toContain(100)
    expect(delays()).toEqual(expect.arrayContaining([1, 2, 4, 8, 16, 32, 64]))
  })

  it('retries for a second at the end of the process when nobody reads', () => {
    const { fd } = pipe()
    expect(() => {
      for (;;) writeSync(fd, 'x'.repeat(4_096))
    }).toThrow('EAGAIN')
    const output = new LogOutput({ fd, lostLine })
    output.write('first\n')
    output.write('last\n')
    const begun = performance.now()
    output.flushSync()
    expect(performance.now() - begun).toBeGreaterThan(900)
  })

  it('stops writing when its reader has gone', async () => {
    const { fd, hangUp } = pipe()
    hangUp()
    const output = new LogOutput({ fd, lostLine })
    const delays = retries()
    output.write('one\n')
    await written()
    output.write('two\n')
    expect(process.getActiveResourcesInfo()).not.toContain('FSReqCallback')
    output.flushSync()
    expect(delays()).not.toContain(1_000)
  })
})

/** Everything that is in the pipe. */
function readAll(fd: number): string {
  const chunk = Buffer.alloc(65_536)
  let text = ''
  for (;;) {
    try {
      const bytes = readSync(fd, chunk)
      if (bytes === 0) return text
      text += chunk.toString('utf8', 0, bytes)
    } catch {
      return text
    }
  }
}

it('redactUrls and the logger remove the credentials of every URL in a text', () => {
  const text = 'amqp://u:one@a refused, and so did amqps://u:two@b:5671/x'
  expect(redactUrls(text)).toBe('amqp://a refused, and so did amqps://b:5671/x')
  const lines: string[] = []
  const logger = createLogger('info', { write: (line) => void lines.push(line) })
  logger.warn({ err: new Error(text, { cause: new Error(text) }) }, 'no broker')
  expect(lines.join('')).toContain('amqp://a refused')
  expect(lines.join('')).not.toMatch(/one@|two@/)
})

it('redactUrls goes once through a text with many schemes', () => {
  const text = 'a://'.repeat(500_000)
  expect(redactUrls(text)).toBe(text)
  expect(redactUrls(`${text}user:secret@host x@a://b`)).toBe('a://host x@a://b')
})
