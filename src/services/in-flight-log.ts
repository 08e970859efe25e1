import type { Service } from '../lifecycle.ts'
import type { Deps } from '../operations/deps.ts'

const INTERVAL_MS = 50

/**
 * What a crash at this moment could execute twice (law 6), as a debug line every 50 ms: active
 * leases, publishes without a confirm, and retry publishes whose delivery was not yet acked (that
 * ack follows the confirm at once). The crash tests count from the last line before the fault.
 */
export function inFlightLog(deps: Deps): Service {
  let timer: NodeJS.Timeout | undefined
  const line = () => {
    try {
      deps.logger.debug(inFlight(deps), 'in flight')
    } catch (err) {
      deps.logger.debug({ err }, 'in flight: unknown')
    }
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

function inFlight(deps: Deps) {
  let leases = 0
  for (const queue of deps.ledger.queues()) leases += deps.ledger.counts(queue.name).active
  const retries = retryPublishes(deps)
  return { publishes: deps.tokens.sending.size - retries, retries, leases }
}

/** By attempt: a slow retry publish may see its row become `available` meanwhile. */
function retryPublishes(deps: Deps): number {
  let count = 0
  for (const id of deps.tokens.sending) if ((deps.ledger.standing(id)?.attempt ?? 0) > 0) count++
  return count
}
