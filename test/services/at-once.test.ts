import { beforeEach, it } from 'vitest'
import type { Deps } from '../../src/operations/deps.ts'
import { cron } from '../../src/services/cron.ts'
import { expiry } from '../../src/services/expiry.ts'
import type { Loop } from '../../src/services/loop.ts'
import { promoter } from '../../src/services/promoter.ts'
import { reaper } from '../../src/services/reaper.ts'
import { fetched, NOW, pushed } from '../ledger/harness.ts'
import { ledgerOfTest } from '../ledger/sqlite/harness.ts'
import { onToldBroker } from '../operations/job-messages/told-broker.ts'
import { eventually } from '../support/gateway/in-process.ts'
import { holdTimers } from '../support/time/held-timers.ts'

/** More than one page of any of the services. */
const MANY = 501

const harness = ledgerOfTest()
let deps: Deps
beforeEach(() => {
  const told = onToldBroker(harness, {
    controlBacklogConsumed: () => true,
    publish: async () => 'confirmed',
  })
  deps = { ...told.deps, clock: { now: () => NOW + 60_000, wall: () => NOW + 60_000 } }
})

const many = (one: () => Promise<unknown>) => Promise.all(Array.from({ length: MANY }, one))
const scheduled = () => pushed(harness.ledger, { start: { state: 'scheduled', dueAt: NOW } })
const counts = () => harness.ledger.known.counts('default')

/** Runs the service for one pass: timers are held, so that there is no second one. */
async function inOnePass(service: Loop, isDone: () => boolean | Promise<boolean>): Promise<void> {
  holdTimers()
  await service.start()
  service.wake()
  await eventually(isDone)
  await service.stop(AbortSignal.abort())
}

it('the promoter promotes 501 due schedules in one pass', async () => {
  await many(scheduled)
  await inOnePass(promoter(deps), () => counts().available === MANY)
})

it('the promoter hands 501 schedules within the horizon over to the plugin in one pass', async () => {
  await many(scheduled)
  const settings = { ...deps.settings, delayMode: 'plugin', horizonMs: 1_000 } as const
  const clock = { now: () => NOW, wall: () => NOW - 1_000 }
  const service = promoter({ ...deps, clock, settings })
  await inOnePass(service, async () => (await harness.ledger.read.owedMessages(1_000)) === MANY)
})

it('the expiry service discards 501 expired jobs in one pass', async () => {
  await many(() => pushed(harness.ledger, { expiresAt: NOW }))
  await inOnePass(expiry(deps), () => counts().discarded === MANY)
})

it('the reaper ends 501 expired leases in one pass', async () => {
  await many(() => fetched(harness.ledger, { visibilityTimeoutMs: 1_000, timeoutMs: 0 }))
  await inOnePass(reaper(deps), () => counts().available === MANY)
})

it('the cron service fires 501 due cron jobs in one pass', async () => {
  const template = { type: 'a', args: [], options: {} }
  const given = { expression: '* * * * *', timezone: 'UTC', overlap: 'skip' } as const
  const first = { nextRunAt: NOW, createdAt: NOW, limit: MANY }
  let count = 0
  await many(() => {
    const name = `e${++count}`
    const entry = { ...given, name, isEnabled: true, description: null, template }
    return harness.ledger.cron.register(entry, first)
  })
  await inOnePass(cron(deps), () => counts().available === MANY)
})
