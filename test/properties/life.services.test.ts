import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { freshQueue, gatewayForAll } from '../operations/harness.ts'
import { OjsClient } from '../support/gateway/client.ts'
import { amount } from '../support/soak.ts'
import { CLIENTS, COMMANDS, type Real, tidy } from './life-commands.ts'
import { Model, moves } from './life-model.ts'

// Leases and attempts do not end by themselves, except those to which a command gives 1 ms.
const { gateway } = gatewayForAll({
  OJS_VISIBILITY_TIMEOUT_MS: '600000',
  OJS_TIMEOUT_MS: '600000',
})

/** Streams run side by side on their own queues, because they mostly wait for commits and confirms. */
const STREAMS = 4
const RUNS = amount(20, 50)
const MIN_COMMANDS = 30
/** The soak makes more runs, beside crash scenarios that load the machine. */
const TIMEOUT_MS = 15_000 * RUNS
const seed = Number(process.env['OJS_TEST_SEED'] ?? Date.now() % 2 ** 31)

describe(`OJS_TEST_SEED=${seed}`, () => {
  test(
    'every sequence of requests follows the transition table of OJS, over HTTP and RabbitMQ',
    async () => {
      const counts = await Promise.all(Array.from({ length: STREAMS }, (_, i) => stream(seed + i)))
      const runs = counts.reduce((sum, count) => sum + count.runs, 0)
      const commands = counts.reduce((sum, count) => sum + count.commands, 0)
      expect(runs).toBeGreaterThanOrEqual(STREAMS * RUNS)
      expect(commands).toBeGreaterThanOrEqual(runs * MIN_COMMANDS)
      // Every move was made often, so the sequences did not consist of refusals only.
      for (const [move, count] of Object.entries(moves))
        expect(count, move).toBeGreaterThan(runs / 10)
    },
    TIMEOUT_MS,
  )
})

/** Checks one property with its own seed. Returns how many runs and commands it took. */
async function stream(streamSeed: number): Promise<{ runs: number; commands: number }> {
  const clients = Array.from({ length: CLIENTS }, () => new OjsClient(() => gateway.url))
  const real: Real = { clients, queues: [freshQueue(), freshQueue()] }
  const done = { runs: 0, commands: 0 }
  let isShrinking = false
  const property = fc.asyncProperty(
    fc.commands(COMMANDS, { maxCommands: 60, size: 'max' }),
    async (commands) => {
      const length = Array.from(commands).length
      fc.pre(isShrinking || length >= MIN_COMMANDS)
      const model = new Model()
      try {
        await fc.asyncModelRun(() => ({ model, real }), commands)
        done.runs += 1
        done.commands += length
      } catch (error) {
        isShrinking = true
        throw error
      } finally {
        await tidy(model, real)
      }
    },
  )
  try {
    await fc.assert(property, { seed: streamSeed, numRuns: RUNS, endOnFailure: false })
  } finally {
    for (const client of clients) client.close()
  }
  return done
}
