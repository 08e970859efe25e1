import { fileURLToPath } from 'node:url'
import { expect } from 'vitest'
import type { Gateway } from '../support/gateway.ts'
import { eventually } from '../support/in-process.ts'

const PRELOAD = `--import ${fileURLToPath(new URL('./failpoint.mjs', import.meta.url))}`

/** Restarts it as one that dies at this point (`failpoint.mjs`); may be dead when this resolves. */
export async function restartDoomed(gateway: Gateway, failpoint: string): Promise<void> {
  // It may die before it listens: what it has missed meanwhile is the first thing it does.
  await gateway.restart({ NODE_OPTIONS: PRELOAD, FAILPOINT: failpoint }).catch(() => {})
}

/** It has died, and where it was to. */
export async function untilDead(
  gateway: Gateway,
  failpoint: string,
  timeoutMs: number,
): Promise<void> {
  await eventually(() => !gateway.isRunning, timeoutMs)
  expect(gateway.log.last('failpoint')).toMatchObject({ at: failpoint })
}
