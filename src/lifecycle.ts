/** Services: started in order, stopped in reverse, within a deadline. */
import type { Logger } from './logger.ts'

/**
 * Something that runs between start and stop. Both calls are idempotent, and stop is allowed without a start,
 * so that a partial start can be rolled back with the same list.
 */
export interface Service {
  readonly name: string
  start(): Promise<void>
  /** Resolves when all resources are released or when `deadline` aborts, whichever comes first. */
  stop(deadline: AbortSignal): Promise<void>
}

/** Starts the services in list order. If one fails, stops the started ones in reverse and rethrows. */
export async function startAll(services: readonly Service[], logger: Logger): Promise<void> {
  const started: Service[] = []
  for (const service of services) {
    try {
      await service.start()
      started.push(service)
    } catch (error) {
      logger.error({ err: error, service: service.name }, 'start failed, rolling back')
      await stopAll(started, AbortSignal.timeout(5_000), logger)
      throw error
    }
  }
}

/** Stops the services in reverse order. Logs a failure to stop and goes on with the other services. */
export async function stopAll(
  services: readonly Service[],
  deadline: AbortSignal,
  logger: Logger,
): Promise<void> {
  for (const service of [...services].reverse()) {
    try {
      await service.stop(deadline)
    } catch (error) {
      logger.error({ err: error, service: service.name }, 'stop failed')
    }
  }
}

/**
 * Settles with `work`, or resolves when `deadline` aborts. All services get the same signal, so each must
 * remove its listener from it again.
 */
export async function untilDeadline(work: Promise<unknown>, deadline: AbortSignal): Promise<void> {
  let giveUp = () => {}
  const isOver = new Promise<void>((resolve) => {
    giveUp = resolve
    if (deadline.aborted) resolve()
    else deadline.addEventListener('abort', giveUp)
  })
  try {
    await Promise.race([work, isOver])
  } finally {
    deadline.removeEventListener('abort', giveUp)
  }
}
