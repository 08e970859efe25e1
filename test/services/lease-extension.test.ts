import { beforeEach, expect, it } from 'vitest'
import type { Delivery } from '../../src/broker/broker.ts'
import { leaseKeeper } from '../../src/services/lease-extension.ts'
import { fetched, NOW, rowOf } from '../ledger/harness.ts'
import { ledgerOfTest } from '../ledger/sqlite/harness.ts'
import {
  onToldBroker,
  type ToldStage,
  toldDelivery,
} from '../operations/job-messages/told-broker.ts'

const harness = ledgerOfTest()
let stage: ToldStage
/** The holder of the lease at the time of each acknowledgement. */
let holders: (string | null)[]
let id: string

beforeEach(async () => {
  stage = onToldBroker(harness, {})
  holders = []
  ;({ id } = await fetched(harness.ledger))
  const ack = async () => {
    holders.push((await rowOf(harness.ledger, id)).holder)
    return 'settled' as const
  }
  stage.deps.jobMessages.held.set(id, { ack, isLive: () => true } as unknown as Delivery)
})

const stop = (keeper: ReturnType<typeof leaseKeeper>) => keeper.stop(AbortSignal.timeout(1_000))

it('the lease keeper extends the leases at start by the time that has passed', async () => {
  const { leaseExpiresAt } = await rowOf(harness.ledger, id)
  const clock = { now: () => NOW + 60_000, wall: () => NOW }
  await leaseKeeper({ ...stage.deps, clock }).start()
  expect((await rowOf(harness.ledger, id)).leaseExpiresAt).toBe((leaseExpiresAt ?? 0) + 60_000)
})

it('the lease keeper shortens the leases at start when the clock was set back', async () => {
  const { leaseExpiresAt } = await rowOf(harness.ledger, id)
  const hourMs = 3_600_000
  await leaseKeeper({ ...stage.deps, clock: { now: () => NOW - hourMs, wall: () => NOW } }).start()
  expect((await rowOf(harness.ledger, id)).leaseExpiresAt).toBe((leaseExpiresAt ?? 0) - hourMs)
})

it('the lease keeper hands leases over to the ledger at stop, and then acknowledges their deliveries', async () => {
  const keeper = leaseKeeper(stage.deps)
  await keeper.start()
  expect(holders).toEqual([])
  await stop(keeper)
  expect(holders).toEqual(['ledger'])
  expect(stage.deps.jobMessages.held.size).toBe(0)
  await stop(keeper)
  expect(holders).toEqual(['ledger'])
})

it('the lease keeper does not hand over leases at stop whose delivery is dead or not held', async () => {
  const other = await fetched(harness.ledger)
  stage.deps.jobMessages.held.set(id, toldDelivery([], { isLive: false }))
  const keeper = leaseKeeper(stage.deps)
  await keeper.start()
  await stop(keeper)
  for (const lease of [id, other.id]) {
    await harness.ledger.complete(lease, {}, { now: NOW, result: null })
    expect(await rowOf(harness.ledger, lease)).toMatchObject({
      state: 'completed',
      messageOut: true,
    })
  }
})

it('the lease keeper keeps the deliveries at stop when the ledger cannot be written', async () => {
  const keeper = leaseKeeper(stage.deps)
  await keeper.start()
  await harness.ledger.close()
  await expect(stop(keeper)).rejects.toMatchObject({ status: 503 })
  expect([holders, stage.deps.jobMessages.held.size]).toEqual([[], 1])
  await harness.reopen()
})

it('the lease keeper does nothing at stop if it was never started', async () => {
  await stop(leaseKeeper(stage.deps))
  expect([holders, (await rowOf(harness.ledger, id)).holder]).toEqual([[], 'gateway'])
})
