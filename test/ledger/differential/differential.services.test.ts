import fc from 'fast-check'
import { afterAll, beforeAll, describe, it, vi } from 'vitest'
import { amount } from '../../support/soak.ts'
import { NOW } from '../harness.ts'
import { postgresHarnesses } from '../postgres/harness.ts'
import { sqliteHarnesses } from '../sqlite/harness.ts'
import { histories } from './histories.ts'
import { Twins } from './twins.ts'

/** Histories, each of 50 calls or more: `OJS_HISTORIES`. */
const RUNS = Number(process.env['OJS_HISTORIES'] ?? amount(6, 100))

describe('the ledgers on SQLite and on PostgreSQL', () => {
  const [sqlite, postgres] = [sqliteHarnesses(), postgresHarnesses()]

  // The ledgers' wall clock is that of the histories.
  beforeAll(() => void vi.useFakeTimers({ toFake: ['Date'], now: NOW }))
  afterAll(() => void vi.useRealTimers())

  it('answer any calls alike, and keep the same rows', {
    timeout: 180_000 + RUNS * 10_000,
  }, async () => {
    await fc.assert(
      fc.asyncProperty(histories(50), async (calls) => {
        const both = [await sqlite(), await postgres()] as const
        try {
          await new Twins(...both).play(calls)
        } finally {
          for (const harness of both) await harness.destroy()
        }
      }),
      { numRuns: RUNS, endOnFailure: true, ...replayed() },
    )
  })
})

/** `OJS_HISTORY=seed,path` of a failure plays it again; `OJS_HISTORY=seed`: all of that seed. */
function replayed(): { seed?: number; path?: string } {
  const [seed, path] = (process.env['OJS_HISTORY'] ?? '').split(',')
  return { ...(seed && { seed: Number(seed) }), ...(path && { path }) }
}
