import fc from 'fast-check'
import { describe, it } from 'vitest'
import { amount } from '../../support/soak.ts'
import { histories, Twins } from '../properties/differential.ts'
import { sqliteHarnesses } from '../sqlite/harness.ts'
import { postgresHarnesses } from './harness.ts'

/** Histories, each of 50 calls or more: `OJS_HISTORIES`. */
const RUNS = Number(process.env['OJS_HISTORIES'] ?? amount(6, 100))

describe('the ledgers on SQLite and on PostgreSQL', () => {
  const [sqlite, postgres] = [sqliteHarnesses(), postgresHarnesses()]

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

/** `OJS_HISTORY=seed,path` of a failure plays it again. */
function replayed(): { seed?: number; path?: string } {
  const [seed, path] = (process.env['OJS_HISTORY'] ?? '').split(',')
  return seed && path ? { seed: Number(seed), path } : {}
}
