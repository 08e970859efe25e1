import { chmodSync, existsSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { openLedgerFile, openSqliteLedger } from '../../../src/ledger/sqlite/open.ts'
import {
  cutShort,
  LEDGER_ID,
  markRunning,
  RUNNING_ID,
} from '../../../src/ledger/sqlite/running-mark.ts'
import { scanWal } from '../../../src/ledger/sqlite/wal-scan.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import { temporaryDirectory } from '../../support/temporary-directory.ts'
import { SILENT } from '../../support/time/silent.ts'
import { NOW, pushed } from '../harness.ts'

const HEADER = 32
const FRAME = 24 + 4096
const LOG_BYTES = 8 * 1024 * 1024

/** The two files of a ledger, as they are while it is open: a process that is killed leaves the same. */
interface Files {
  file: Buffer
  log: Buffer
}

function folder(): string {
  const directory = temporaryDirectory()
  onTestFinished(() => directory.remove())
  return join(directory.path, 'ojs.db')
}

const open = (path: string) => openSqliteLedger({ path, sync: 'normal', logger: SILENT })

async function filesAfter(jobs: number, bytes = 10): Promise<Files> {
  const directory = temporaryDirectory()
  const path = join(directory.path, 'ojs.db')
  const ledger = await open(path)
  for (let i = 0; i < jobs; i++) {
    await pushed(ledger, { envelope: `{"args":["${'x'.repeat(bytes)}"]}` })
  }
  const files = { file: readFileSync(path), log: readFileSync(`${path}-wal`) }
  await ledger.close()
  directory.remove()
  return files
}

function place({ file, log }: Files): string {
  const path = folder()
  writeFileSync(path, file, { mode: 0o600 })
  writeFileSync(`${path}-wal`, log)
  return path
}

/** The reason of the warning, after this change of the log. */
async function reasonAfter(files: Files, change: (path: string) => void): Promise<unknown> {
  const path = place(files)
  change(`${path}-wal`)
  const ledger = await open(path)
  const [warning] = ledger.known.warnings()
  await ledger.close()
  const again = await open(path)
  expect(again.known.warnings()).toEqual([])
  await again.close()
  return warning && [warning.code, warning.details['reason']]
}

function flip(at: number): (path: string) => void {
  return (path) => {
    const log = readFileSync(path)
    log[at] = (log[at] ?? 0) ^ 1
    writeFileSync(path, log)
  }
}

/** The frames of the log's own generation, each of them the offset, and whether it ends a transaction. */
function framesOf({ log }: Files): { at: number; isCommit: boolean }[] {
  const salts = log.subarray(16, 24)
  const frames = []
  for (let at = HEADER; at + FRAME <= log.length; at += FRAME) {
    if (log.subarray(at + 8, at + 16).equals(salts))
      frames.push({ at, isCommit: log.readUInt32BE(at + 4) > 0 })
  }
  return frames
}

describe('a ledger whose gateway was killed', () => {
  let files: Files
  let frames: ReturnType<typeof framesOf>
  beforeAll(async () => {
    files = await filesAfter(40)
    frames = framesOf(files)
    expect(frames.length).toBeGreaterThan(60)
  })
  const middle = () => frames[Math.floor(frames.length / 2)]?.at ?? 0
  const end = () => (frames.at(-1)?.at ?? 0) + FRAME
  const lastTransaction = () => {
    const commits = frames.filter(({ isCommit }) => isCommit)
    return (commits.at(-2)?.at ?? 0) + FRAME
  }

  it.each<[string, unknown, (path: string) => void]>([
    ['as it is', undefined, () => {}],
    ['removed', 'missing', (path) => rmSync(path)],
    ['emptied', 'missing', (path) => truncateSync(path)],
    ['cut to a half of its frames', 'shortened', (path) => truncateSync(path, middle())],
    ['cut behind its frames', 'shortened', (path) => truncateSync(path, end())],
    ['with a flipped bit in its header', 'damaged', flip(17)],
    ['filled with zeros', 'damaged', (path) => writeFileSync(path, Buffer.alloc(LOG_BYTES))],
    ['with a flipped bit in a page', 'damaged', (path) => flip(middle() + 2_000)(path)],
    ['with a flipped bit in a salt', 'damaged', (path) => flip(middle() + 9)(path)],
    ['with a flipped bit in a checksum', 'damaged', (path) => flip(middle() + 20)(path)],
    ['with a flipped bit in the first frame', 'damaged', flip(HEADER + 1)],
    [
      'with a flipped bit in the last transaction',
      'damaged',
      (path) => flip(lastTransaction())(path),
    ],
    ['with a flipped bit behind its frames', undefined, (path) => flip(end() + 500)(path)],
    [
      'with half of its last frame',
      undefined,
      (path) => {
        const log = readFileSync(path).fill(0, end() - 2_000, end())
        writeFileSync(path, log)
      },
    ],
    [
      'without the end of its last transaction',
      undefined,
      (path) => {
        writeFileSync(path, readFileSync(path).fill(0, end() - FRAME))
      },
    ],
  ])('and whose log is %s is cut short: %s', async (_, reason, change) => {
    const expected = reason && ['ledger_cut_short', reason]
    expect(await reasonAfter(files, change)).toEqual(expected)
  })

  it('is not cut short by a loss of power that tore the last transaction only', async () => {
    const path = place(files)
    flip(lastTransaction() + 2_000)(`${path}-wal`)
    const log = scanWal(`${path}-wal`)
    expect(log.cutOff).toBe(1)
    const db = await openLedgerFile({ path, sync: 'normal', logger: SILENT })
    const found = (cutOff: number) => ({ wasRunning: true, log: { ...log, cutOff } })
    expect(cutShort(found(1), db, path)).toMatchObject({ code: 'ledger_cut_short' })
    db.exec(`UPDATE settings SET value = value + 1 WHERE name = 'boot'`)
    expect(cutShort(found(1), db, path)).toBeNull()
    expect(cutShort(found(2), db, path)).toMatchObject({ code: 'ledger_cut_short' })
    db.close()
  })

  it('is logged as an error, with the file', async () => {
    const path = place(files)
    rmSync(`${path}-wal`)
    const error = vi.fn()
    const ledger = await openSqliteLedger({ path, sync: 'normal', logger: { ...SILENT, error } })
    await ledger.close()
    const fields = { code: 'ledger_cut_short', reason: 'missing', file: `${path}-wal` }
    expect(error.mock.calls).toEqual([[fields, expect.stringContaining('is missing or empty')]])
  })
})

it('a log that was begun anew has frames of before, which are no damage', async () => {
  const files = await filesAfter(25, 1_000_000)
  const [first = -1] = framesOf(files).map(({ at }) => at)
  expect(first).toBe(HEADER)
  const own = framesOf(files).length
  expect(files.log.length).toBeGreaterThan(HEADER + own * FRAME + FRAME)
  expect(await reasonAfter(files, () => {})).toBeUndefined()
  expect(await reasonAfter(files, flip(HEADER + 500))).toEqual(['ledger_cut_short', 'damaged'])
})

it('a log does not go into a copy of the file that has none', async () => {
  const files = await filesAfter(3)
  const path = folder()
  const backup = await open(path)
  const { id } = await pushed(backup)
  await backup.close()
  writeFileSync(`${path}-wal`, files.log)
  await expect(open(path)).rejects.toThrow(/-wal exists, but .* belongs to another copy/)
  expect(existsSync(`${path}-wal`)).toBe(true)
  rmSync(`${path}-wal`)
  const restored = await open(path)
  expect(restored.read.find(id)).not.toBeNull()
  await restored.close()
})

it('one process does not open a ledger twice, and the first keeps its lock', async () => {
  const path = folder()
  const ledger = await open(path)
  await expect(open(path)).rejects.toThrow(/is in use by|has it open already/)
  expect(await ledger.insert(newJob(), NOW)).toMatchObject({ outcome: 'inserted' })
  await ledger.close()
  await (await open(path)).close()
})

it('a ledger that every user may read or write is warned of until its mode is another', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  const path = folder()
  await (await open(path)).close()
  const codes = async (mode: number) => {
    chmodSync(path, mode)
    const ledger = await open(path)
    const found = ledger.known.warnings().map(({ code }) => code)
    chmodSync(path, 0o600)
    vi.advanceTimersByTime(2_000)
    expect(ledger.known.warnings()).toEqual([])
    await ledger.close()
    return found
  }
  expect(await codes(0o644)).toEqual(['ledger_exposed'])
  expect(await codes(0o602)).toEqual(['ledger_exposed'])
  expect(await codes(0o660)).toEqual([])
})

it('a ledger opens without the mark when its disk is full, or its log cannot be long', async () => {
  const path = folder()
  const db = await openLedgerFile({ path, sync: 'normal', logger: SILENT })
  const id = () => db.prepare('PRAGMA application_id').get()
  expect(id()).toEqual({ application_id: RUNNING_ID })
  for (const failing of ['COMMIT', 'PRAGMA wal_checkpoint(FULL)']) {
    const full = (sql: string) => {
      if (sql === failing) throw Object.assign(new Error('disk full'), { errcode: 13 })
      db.exec(sql)
    }
    expect(() => markRunning({ ...db, exec: full }, path)).not.toThrow()
  }
  expect(id()).toEqual({ application_id: RUNNING_ID })
  markRunning(db, join(path, 'nowhere'))
  expect(id()).toEqual({ application_id: LEDGER_ID })
  db.close()
})
