import { fileURLToPath } from 'node:url'
import { expect } from 'vitest'
import type { Gateway } from '../support/gateway/gateway.ts'
import { eventually } from '../support/gateway/in-process.ts'

const PRELOAD = `--import ${fileURLToPath(new URL('./failpoint.mjs', import.meta.url))}`

/** Restarts the gateway so that it dies at this point (`failpoint.mjs`); it may be dead already then. */
export async function restartDoomed(gateway: Gateway, failpoint: string): Promise<void> {
  // It may die before it listens, because it first catches up on what it has missed.
  await gateway.restart({ NODE_OPTIONS: PRELOAD, FAILPOINT: failpoint }).catch(() => {})
}

/** Resolves when the gateway has died, and checks that it was at this point. */
export async function untilDead(
  gateway: Gateway,
  failpoint: string,
  timeoutMs: number,
): Promise<void> {
  await eventually(() => !gateway.isRunning, timeoutMs)
  expect(gateway.log.last('failpoint')).toMatchObject({ at: failpoint })
}
