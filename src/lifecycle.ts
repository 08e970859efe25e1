import type { Logger } from './logger.ts'

/**
 * Something that runs between start and stop. Both calls are idempotent, and stop without start
 * is legal, so that a partial start can be rolled back with the same list.
 */
export interface Service {
  readonly name: string
  start(): Promise<void>
  /** Resolves when everything is given back, or when `deadline` aborts, whichever is first. */
  stop(deadline: AbortSignal): Promise<void>
}

/** Starts in list order. When one fails, those already started are stopped in reverse. */
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

/** Stops in reverse order; one service that fails to stop does not keep the others running. */
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
 * Settles with `work`, or resolves when `deadline` aborts. All services are stopped with one signal,
 * so none of them may leave a listener on it.
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
