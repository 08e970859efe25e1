import { setImmediate as settled } from 'node:timers/promises'
import { beforeEach, describe, expect, it } from 'vitest'
import type { EnsureOutcome } from '../../../src/broker/broker.ts'
import type { JobRow } from '../../../src/job/job.ts'
import { acknowledgeEarly } from '../../../src/operations/lease/hand-over.ts'
import {
  requeueLease,
  settleLease,
  toDeadLetters,
} from '../../../src/operations/lease/lease-end.ts'
import { fetched, rowOf } from '../../ledger/harness.ts'
import { ledgerOfTest } from '../../ledger/sqlite/harness.ts'
import { onToldBroker, type ToldStage, toldDelivery } from '../job-messages/told-broker.ts'

const harness = ledgerOfTest()
let stage: ToldStage
/** What RabbitMQ was told, in order. */
let told: string[]
let declares: EnsureOutcome | null

beforeEach(() => {
  told = []
  declares = null
  stage = onToldBroker(harness, {
    publish: async ({ state }) => {
      told.push(`publish ${state}`)
      return 'confirmed'
    },
    isDeclared: () => declares === null,
    ensureQueue: async () => declares ?? 'ready',
    putBack: () => void told.push('put back'),
    unpark: () => told.push('unpark') > 0,
  })
})

async function leased(given: Parameters<typeof toldDelivery>[1] = {}): Promise<JobRow> {
  const row = await fetched(harness.ledger, { visibilityTimeoutMs: 3_600_000 })
  stage.deps.jobMessages.held.set(row.id, toldDelivery(told, given))
  return row
}

describe('settleLease', () => {
  it.each([
    ['settled', true],
    ['lost', false],
  ] as const)(
    'acknowledges the held delivery once, and returns whether the job message is back: %s',
    async (settles, isBack) => {
      const { id } = await leased({ settles })
      expect(settleLease(stage.deps, id)).toBe(isBack)
      expect(told).toEqual(['unpark', 'ack'])
      expect(settleLease(stage.deps, id)).toBe(false)
      expect(told).toEqual(['unpark', 'ack', 'unpark'])
    },
  )
})

describe('requeueLease', () => {
  it('puts the held delivery back into its buffer', async () => {
    const row = await leased()
    expect(await requeueLease(stage.deps, row.id, row)).toMatchObject({
      state: 'available',
      attempt: 0,
    })
    expect(told).toEqual(['unpark', 'put back'])
    expect(stage.deps.jobMessages.held.has(row.id)).toBe(false)
  })

  it('publishes no job message when the channel of the delivery is gone, since RabbitMQ redelivers it', async () => {
    const row = await leased({ isLive: false })
    expect(await requeueLease(stage.deps, row.id, row)).toMatchObject({ outbox: null })
    await settled()
    expect(told).toEqual(['unpark'])
  })

  it('publishes a new job message before it acknowledges a held one of an earlier attempt', async () => {
    const row = await leased({ attempt: 0 })
    await requeueLease(stage.deps, row.id, row)
    expect(told).toEqual(['unpark', 'publish available'])
    await settled()
    expect(told).toEqual(['unpark', 'publish available', 'ack'])
  })

  it('publishes a new job message when the ledger alone held the lease', async () => {
    const row = await leased()
    stage.deps.jobMessages.held.delete(row.id)
    await harness.ledger.handOver([row])
    await requeueLease(stage.deps, row.id, row)
    await settled()
    expect(told).toEqual(['unpark', 'publish available'])
  })

  it('answers stale to a worker that does not hold the lease', async () => {
    const row = await leased()
    expect(await requeueLease(stage.deps, row.id, { workerId: 'worker-2' })).toEqual({
      outcome: 'stale',
      row: await stage.deps.ledger.read.standing(row.id),
    })
    expect(told).toEqual([])
    expect(stage.deps.jobMessages.held.has(row.id)).toBe(true)
  })
})

describe('toDeadLetters', () => {
  it.each<[EnsureOutcome | null, string]>([
    [null, 'dead letter'],
    ['ready', 'dead letter'],
    // RabbitMQ would drop the message, since there is no dead letter queue to route it to.
    ['unavailable', 'put back'],
  ])(
    'with the outcome %s of declaring the dead letter queue, ends with: %s',
    async (outcome, expected) => {
      declares = outcome
      let isTold = false
      toDeadLetters(stage.deps, toldDelivery(told), () => {
        isTold = true
      })
      await settled()
      expect(told).toEqual([expected])
      expect(isTold).toBe(expected === 'dead letter')
    },
  )

  it('does not report a copy when the delivery was lost before its rejection', async () => {
    let isTold = false
    toDeadLetters(stage.deps, toldDelivery(told, { settles: 'lost' }), () => {
      isTold = true
    })
    expect([told, isTold]).toEqual([['dead letter'], false])
  })
})

describe('acknowledgeEarly', () => {
  it('acknowledges the delivery after the ledger has committed that it alone holds the lease', async () => {
    const row = await leased()
    const handed = acknowledgeEarly(stage.deps, [row])
    expect(told).toEqual([])
    await handed
    expect(told).toEqual(['ack'])
    expect(stage.deps.jobMessages.held.has(row.id)).toBe(false)
    expect(await rowOf(harness.ledger, row.id)).toMatchObject({ state: 'active', holder: 'ledger' })
  })

  it('leaves alone another delivery that is held for the job since', async () => {
    const row = await leased()
    const handed = acknowledgeEarly(stage.deps, [row])
    const other = toldDelivery(told)
    stage.deps.jobMessages.held.set(row.id, other)
    await handed
    expect(told).toEqual([])
    expect(stage.deps.jobMessages.held.get(row.id)).toBe(other)
  })

  it('leaves the lease to the gateway when the channel of the delivery is gone', async () => {
    const row = await leased()
    stage.deps.jobMessages.held.set(row.id, toldDelivery(told, { isLive: false }))
    await acknowledgeEarly(stage.deps, [row])
    expect(told).toEqual([])
    expect(await rowOf(harness.ledger, row.id)).toMatchObject({
      state: 'active',
      holder: 'gateway',
    })
  })

  it('returns the lease to the gateway when the delivery was lost before its acknowledgement', async () => {
    const row = await leased()
    stage.deps.jobMessages.held.set(row.id, toldDelivery(told, { settles: 'lost' }))
    await acknowledgeEarly(stage.deps, [row])
    expect(told).toEqual(['ack'])
    expect(await rowOf(harness.ledger, row.id)).toMatchObject({
      state: 'active',
      holder: 'gateway',
    })
  })

  it('keeps the delivery when the ledger cannot be written', async () => {
    const row = await leased()
    await harness.ledger.close()
    await acknowledgeEarly(stage.deps, [row])
    expect(told).toEqual([])
    expect(stage.deps.jobMessages.held.has(row.id)).toBe(true)
    await harness.reopen()
  })
})
