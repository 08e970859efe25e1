import { afterEach, beforeEach, expect, it } from 'vitest'
import type { Delivery } from '../../src/broker/broker.ts'
import { leaseKeeper } from '../../src/services/lease-keeper.ts'
import { fetched, NOW, rowOf } from '../ledger/harness.ts'
import { openSqliteHarness, type SqliteHarness } from '../ledger/sqlite-harness.ts'
import { onToldBroker, type ToldStage, toldDelivery } from '../operations/told-broker.ts'

let harness: SqliteHarness
let stage: ToldStage
/** Who had the lease when its delivery was acknowledged. */
let holders: (string | null)[]
let id: string

beforeEach(async () => {
  harness = await openSqliteHarness()
  stage = onToldBroker(harness, {})
  holders = []
  ;({ id } = await fetched(harness.ledger))
  const ack = () => {
    holders.push(rowOf(harness.ledger, id).holder)
    return 'settled' as const
  }
  stage.deps.tokens.held.set(id, { ack, isLive: () => true } as unknown as Delivery)
})
afterEach(() => harness.destroy())

const stop = (keeper: ReturnType<typeof leaseKeeper>) => keeper.stop(AbortSignal.timeout(1_000))

it('gives leases their time again at start, before RabbitMQ is there to say so', async () => {
  const { leaseExpiresAt } = rowOf(harness.ledger, id)
  const clock = { now: () => NOW + 60_000, wall: () => NOW }
  await leaseKeeper({ ...stage.deps, clock }).start()
  expect(rowOf(harness.ledger, id).leaseExpiresAt).toBe((leaseExpiresAt ?? 0) + 60_000)
})

it('takes back at start what a clock that has been set back would make last for hours', async () => {
  const { leaseExpiresAt } = rowOf(harness.ledger, id)
  const hourMs = 3_600_000
  await leaseKeeper({ ...stage.deps, clock: { now: () => NOW - hourMs, wall: () => NOW } }).start()
  expect(rowOf(harness.ledger, id).leaseExpiresAt).toBe((leaseExpiresAt ?? 0) - hourMs)
})

it('acknowledges what is leased when it stops, behind the commit that hands it over', async () => {
  const keeper = leaseKeeper(stage.deps)
  await keeper.start()
  expect(holders).toEqual([])
  await stop(keeper)
  expect(holders).toEqual(['ledger'])
  expect(stage.deps.tokens.held.size).toBe(0)
  await stop(keeper)
  expect(holders).toEqual(['ledger'])
})

it('leaves a lease whose delivery is dead, or was never here: RabbitMQ has the token', async () => {
  const other = await fetched(harness.ledger)
  stage.deps.tokens.held.set(id, toldDelivery([], { isLive: false }))
  const keeper = leaseKeeper(stage.deps)
  await keeper.start()
  await stop(keeper)
  for (const lease of [id, other.id]) {
    await harness.ledger.complete(lease, {}, { now: NOW, result: null })
    expect(rowOf(harness.ledger, lease)).toMatchObject({ state: 'completed', tokenOut: true })
  }
})

it('keeps the deliveries where that cannot be written: RabbitMQ gives them out again', async () => {
  const keeper = leaseKeeper(stage.deps)
  await keeper.start()
  await harness.ledger.close()
  await expect(stop(keeper)).rejects.toMatchObject({ status: 503 })
  expect([holders, stage.deps.tokens.held.size]).toEqual([[], 1])
  await harness.reopen()
})

it('leaves the leases alone where it never began', async () => {
  await stop(leaseKeeper(stage.deps))
  expect([holders, rowOf(harness.ledger, id).holder]).toEqual([[], 'gateway'])
})
