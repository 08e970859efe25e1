import { onTestFinished, vi } from 'vitest'

const DEADLINE_MS = 30_000
const LOOK_AGAIN_MS = 5

const wait = globalThis.setTimeout

/** Timeouts that run when the test says so, until it ends. What comes from elsewhere takes its time. */
export function holdTimers() {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  return {
    count: () => vi.getTimerCount(),
    elapse: async (ms: number) => void (await vi.advanceTimersByTimeAsync(ms)),
    /** For what RabbitMQ does: `expect.poll` would let the timers run at each look. */
    until: async (condition: () => Promise<boolean> | boolean) => {
      const deadline = performance.now() + DEADLINE_MS
      while (!(await condition())) {
        if (performance.now() > deadline) throw new Error('did not become true in time')
        await new Promise((resolve) => wait(resolve, LOOK_AGAIN_MS))
      }
    },
  }
}
