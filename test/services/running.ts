import { vi } from 'vitest'
import type { Service } from '../../src/lifecycle.ts'

/** Runs a service until `done` no longer throws, and stops it in any case. */
export async function runningUntil(service: Service, done: () => unknown): Promise<void> {
  await service.start()
  try {
    // A busy machine may pause for seconds.
    await vi.waitFor(done, { timeout: 15_000 })
  } finally {
    await service.stop(AbortSignal.timeout(1_000))
  }
}
