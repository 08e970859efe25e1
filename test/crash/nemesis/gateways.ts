import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import type { PrivatePostgres } from '../../../scripts/postgres/private-postgres.mjs'
import { databaseOn } from '../../support/gateway/test-ledger.ts'
import type { Stage } from '../stage.ts'
import { strike, times, withPair } from './stage.ts'

const STILL_MS = 15_000

export async function gatewayKilled(stage: Stage, server: PrivatePostgres): Promise<void> {
  await withPair(stage, await databaseOn(server.url(), stage), (players) =>
    times(4, async () => {
      const struck = await strike(stage, players, { fault: (gateway) => gateway.kill9() })
      await struck.restart()
    }),
  )
}

export async function gatewayEnded(stage: Stage, server: PrivatePostgres): Promise<void> {
  await withPair(stage, await databaseOn(server.url(), stage), (players) =>
    times(4, async () => {
      const fault = (gateway: { stop(): Promise<unknown> }) => void gateway.stop()
      const struck = await strike(stage, players, { fault })
      await struck.restart()
    }),
  )
}

/** It goes on as if nothing had been, with requests in its hands, while the other one serves. */
export async function gatewayStoodStill(stage: Stage, server: PrivatePostgres): Promise<void> {
  const ledger = await databaseOn(server.url(), stage)
  await withPair(stage, ledger, (players) =>
    times(2, async () => {
      const still = sleep(STILL_MS)
      const struck = await strike(stage, players, { fault: (gateway) => gateway.freeze() })
      await still
      const standing = struck.untilLogged('standing by', 30_000)
      const before = await ownerOfSlot(ledger)
      struck.thaw()
      await standing
      expect(await ownerOfSlot(ledger)).toEqual(before)
    }),
  )
}

function ownerOfSlot(ledger: { rows(text: string): Promise<unknown[]> }): Promise<unknown[]> {
  return ledger.rows('SELECT owner, epoch FROM slots')
}
