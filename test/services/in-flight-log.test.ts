import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { inFlightLog } from '../../src/services/in-flight-log.ts'
import { fetched, pushed } from '../ledger/harness.ts'
import { ledgerOfTest } from '../ledger/sqlite/harness.ts'
import { onToldBroker } from '../operations/job-messages/told-broker.ts'

const harness = ledgerOfTest()
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
})
afterEach(() => {
  vi.useRealTimers()
})

it('the in-flight log counts publishes of retries separately from first publishes', async () => {
  const debug = vi.fn()
  const { deps } = onToldBroker(harness, {})
  const [fresh, failed] = [await pushed(harness.ledger), await fetched(harness.ledger)]
  const service = inFlightLog({ ...deps, logger: { ...deps.logger, debug } })
  for (const { id } of [fresh, failed]) deps.jobMessages.sending.add(id)
  await service.start()
  await vi.advanceTimersByTimeAsync(50)
  expect(debug.mock.lastCall?.[0]).toEqual({ publishes: 1, retries: 1, leases: 1 })
  await service.stop(new AbortController().signal)
})

it('the in-flight log says "in flight: unknown" when the ledger is closed', async () => {
  const debug = vi.fn()
  const { deps } = onToldBroker(harness, {})
  const service = inFlightLog({ ...deps, logger: { ...deps.logger, debug } })
  deps.jobMessages.sending.add('job')
  await service.start()
  await vi.advanceTimersByTimeAsync(50)
  expect(debug.mock.calls).toEqual([[{ publishes: 1, retries: 0, leases: 0 }, 'in flight']])
  await harness.ledger.close()
  await vi.advanceTimersByTimeAsync(50)
  expect(debug.mock.lastCall?.[1]).toBe('in flight: unknown')
  await service.stop(new AbortController().signal)
})
