import type { Service } from '../lifecycle.ts'
import type { Deps } from '../operations/deps.ts'

const INTERVAL_MS = 50

/**
 * What a crash at this moment could execute twice (law 6): active leases and publishes without a
 * confirm, as a debug line every 50 ms. The crash tests count from the last line before the fault.
 */
export function inFlightLog(deps: Deps): Service {
  let timer: NodeJS.Timeout | undefined
  const line = () => {
    let leases = 0
    for (const queue of deps.ledger.queues()) leases += deps.ledger.counts(queue.name).active
    deps.logger.debug({ publishes: deps.sending.size, leases }, 'in flight')
  }
  return {
    name: 'in-flight log',
    async start() {
      timer ??= setInterval(line, INTERVAL_MS).unref()
    },
    async stop() {
      clearInterval(timer)
      timer = undefined
    },
  }
}
