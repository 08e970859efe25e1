import { vi } from 'vitest'
import type { Service } from '../../src/lifecycle.ts'

/** Runs a service until `done` throws no more, and stops it in any case. */
export async function runningUntil(service: Service, done: () => unknown): Promise<void> {
  await service.start()
  try {
    await vi.waitFor(done)
  } finally {
    await service.stop(AbortSignal.timeout(1_000))
  }
}
