import { onTestFinished, vi } from 'vitest'

/**
 * Holds timeouts until the test lets them run, or ends. To wait for RabbitMQ meanwhile, use `eventually`:
 * `expect.poll` would run them at each check.
 */
export function holdTimers() {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  return {
    count: () => vi.getTimerCount(),
    elapse: async (ms: number) => void (await vi.advanceTimersByTimeAsync(ms)),
  }
}
