import { createHttpService, type HttpServiceOptions } from '../../src/http/server.ts'
import type { Deps } from '../../src/operations/deps.ts'
import { type Frame, OPEN, recordingLogger, startFrame } from './frame.ts'

/** A ring without events. */
export const NO_EVENTS: HttpServiceOptions['events'] = {
  list: () => ({ events: [], cursor: null, has_more: false, gap: false }),
  oldest: 0,
  end: 0,
  follow: () => null,
  numberAfter: () => null,
}

/**
 * Starts the HTTP service with all its routes, for operations that the test has replaced by `vi.mock`. Its
 * `deps` hold only what the HTTP layer itself uses.
 */
export async function openDoor(
  maxBodyBytes = 10_000,
  options: Partial<HttpServiceOptions> = {},
  given: Partial<Deps['settings']> = {},
  more: Partial<Deps> = {},
): Promise<Frame> {
  const logger = recordingLogger()
  const done: Frame['done'] = []
  const limits = { maxBodyBytes, maxBatchBytes: 10 * maxBodyBytes }
  const settings = { dialect: 'seed', visibilityTimeoutMs: 30_000, ...limits, ...given }
  const replication = { kind: 'sqlite', isReplicated: () => false, standbys: () => 0 }
  const ledger = { audit: { append: async () => {} }, known: { replication } }
  const clock = { now: () => 0, wall: () => 0 }
  const deps = { logger, settings, clock, ledger, ...more } as unknown as Deps
  const server = createHttpService(deps, {
    host: '127.0.0.1',
    port: 0,
    access: OPEN,
    queueType: 'classic',
    priorityOrder: () => ({ levels: 10, isStrict: true }),
    version: '1.2.3',
    events: NO_EVENTS,
    shownConfig: {},
    ledgerAtStart: { bytes: 0, freeBytes: 0, at: 0 },
    hasConsole: true,
    consoleLinks: { traceUrl: null, codecUrl: null },
    metrics: {
      http: {
        requestDone: (route, method, status, seconds) => {
          done.push({ route, method, status, seconds })
        },
      },
      contentType: 'text/plain; version=0.0.4; charset=utf-8',
      text: async () => 'up 1\n',
    },
    ...options,
  })
  return startFrame(server, logger.lines, done)
}
