import { onTestFinished, vi } from 'vitest'

/**
 * Timeouts that run when the test says so, until it ends. For what RabbitMQ does meanwhile there is
 * `eventually`: `expect.poll` would let them run at each look.
 */
export function holdTimers() {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  return {
    count: () => vi.getTimerCount(),
    elapse: async (ms: number) => void (await vi.advanceTimersByTimeAsync(ms)),
  }
}
