/** For crash tests: logs how many jobs a crash at this moment could run twice. */
import type { Service } from '../lifecycle.ts'
import type { Deps } from '../operations/deps.ts'

const INTERVAL_MS = 50

/**
 * Logs every 50 ms, as a debug line, how many jobs a crash at this moment could execute twice
 * (docs/architecture.md, law 6): active leases, publishes without a confirm, and retry publishes whose
 * delivery is not acknowledged yet (that follows the confirm at once). The crash tests take the last line
 * before the fault as their bound.
 */
export function inFlightLog(deps: Deps): Service {
  let timer: NodeJS.Timeout | undefined
  const line = async () => {
    try {
      deps.logger.debug(await inFlight(deps), 'in flight')
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

async function inFlight(deps: Deps) {
  const sending = [...deps.jobMessages.sending]
  let leases = 0
  for (const queue of deps.ledger.known.queues())
    leases += deps.ledger.known.counts(queue.name).active
  const retries = await retryPublishes(deps, sending)
  return { publishes: sending.length - retries, retries, leases }
}

/** Counts retry publishes. Goes by the attempt, as the row of a slow one may be `available` by now. */
async function retryPublishes(deps: Deps, sending: readonly string[]): Promise<number> {
  const rows = await deps.ledger.read.standings(sending)
  return [...rows.values()].filter(({ attempt }) => attempt > 0).length
}
