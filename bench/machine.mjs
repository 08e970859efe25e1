import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { availableParallelism, cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { median } from './statistics.mjs'

/** Describes in one line what the figures depend on beside the code. */
export function describeMachine() {
  return [
    new Date().toISOString().slice(0, 10),
    `${availableParallelism()} × ${cpus()[0]?.model ?? 'unknown processor'}`,
    `Node ${process.versions.node}`,
    `one sync of 4 KiB in ${tmpdir()}: ${syncMs().toFixed(2)} ms`,
  ].join(', ')
}

/** The time of a sync: the ledger syncs once per group commit, and PUSH waits for that. */
function syncMs() {
  const dir = mkdtempSync(join(tmpdir(), 'ojs-rabbitmq-bench-sync-'))
  const file = openSync(join(dir, 'probe'), 'w')
  const page = Buffer.alloc(4096, 1)
  const times = Array.from({ length: 100 }, () => {
    const startedAt = performance.now()
    writeSync(file, page)
    fdatasyncSync(file)
    return performance.now() - startedAt
  })
  closeSync(file)
  rmSync(dir, { recursive: true })
  return median(times)
}
