import { beforeEach, expect, it, vi } from 'vitest'
import { recordReports } from '../../src/operations/native/report.ts'
import { expiry } from '../../src/services/expiry.ts'
import { NOW, pushed, rowOf, settleLazily } from '../ledger/harness.ts'
import { ledgerOfTest } from '../ledger/sqlite/harness.ts'
import { onToldBroker, type ToldStage } from '../operations/job-messages/told-broker.ts'
import { runningUntil } from './running.ts'

const harness = ledgerOfTest()
let stage: ToldStage
/** Whether the backlog of the control queues has been consumed. */
let isHeard: boolean
let unparked: string[]
let caughtUp: string[]

beforeEach(() => {
  isHeard = true
  unparked = []
  caughtUp = []
  stage = onToldBroker(harness, {
    controlBacklogConsumed: () => isHeard,
    catchUp: async (queues) => caughtUp.push(...queues) > 0,
    unpark: (id) => unparked.push(id) > 0,
  })
})

const expiring = (until: () => unknown) => runningUntil(expiry(stage.deps), until)
const stateOf = async (id: string) => (await rowOf(harness.ledger, id)).state

it('the expiry service expires no job until the backlog of the control queues is consumed', async () => {
  const { id } = await pushed(harness.ledger, { expiresAt: NOW })
  isHeard = false
  const expire = vi.spyOn(harness.ledger, 'expire')
  const looks = vi.spyOn(stage.deps.broker, 'controlBacklogConsumed')
  await expiring(() => expect(looks.mock.calls.length).toBeGreaterThan(1))
  expect([await stateOf(id), expire.mock.calls.length]).toEqual(['available', 0])
  isHeard = true
  await expiring(async () => expect(await stateOf(id)).toBe('discarded'))
})

it('the expiry service commits nothing while nothing has expired', async () => {
  await pushed(harness.ledger, { expiresAt: NOW + 1 })
  const looks = vi.spyOn(harness.ledger.read, 'expiring')
  const expire = vi.spyOn(harness.ledger, 'expire')
  await expiring(() => expect(looks.mock.calls.length).toBeGreaterThan(1))
  expect(expire).not.toHaveBeenCalled()
})

it('the expiry service hears first what native workers have reported about the queues of due jobs', async () => {
  const { ledger } = harness
  const done = await pushed(ledger, { queue: 'a', expiresAt: NOW })
  const lost = await pushed(ledger, { queue: 'b', expiresAt: NOW })
  await pushed(ledger, { queue: 'c', expiresAt: NOW + 1 })
  stage.deps.broker.catchUp = async (queues) => {
    caughtUp.push(...queues)
    const said = { event: 'completed', result: null } as const
    const event = { id: done.id, generation: 0, attempt: 1, workerId: 'w', said }
    await recordReports(stage.deps, [event], { requestId: 'req_1' })
    return true
  }
  await expiring(async () => expect(await stateOf(lost.id)).toBe('discarded'))
  expect(await stateOf(done.id)).toBe('completed')
  expect(caughtUp.toSorted()).toEqual(['a', 'b'])
})

it('the expiry service expires nothing if RabbitMQ is gone before it has heard that', async () => {
  const { id } = await pushed(harness.ledger, { expiresAt: NOW })
  let asked = 0
  stage.deps.broker.catchUp = async () => {
    asked += 1
    isHeard = false
    return true
  }
  stage.deps.broker.controlBacklogConsumed = () => isHeard || asked === 0
  await expiring(() => expect(asked).toBe(1))
  expect(await stateOf(id)).toBe('available')
})

it('the expiry service compares expires_at with the wall clock', async () => {
  const wall = NOW + 7_200_000
  const due = await pushed(harness.ledger, { expiresAt: wall })
  const late = await pushed(harness.ledger, { expiresAt: wall + 1 })
  const clock = { now: () => NOW, wall: () => wall }
  const service = expiry({ ...stage.deps, clock })
  await runningUntil(service, async () => expect(await stateOf(due.id)).toBe('discarded'))
  expect(await stateOf(late.id)).toBe('available')
})

it('the expiry service marks a job message as out only if it may have been published', async () => {
  const given = { expiresAt: NOW }
  const [lone, busy] = [await pushed(harness.ledger, given), await pushed(harness.ledger, given)]
  stage.deps.jobMessages.sending.add(busy.id)
  await expiring(async () => expect(await stateOf(busy.id)).toBe('discarded'))
  await settleLazily(harness.ledger)
  const out = await Promise.all(
    [lone, busy].map(async ({ id }) => (await rowOf(harness.ledger, id)).messageOut),
  )
  expect(out).toEqual([false, true])
})

it('the expiry service unparks the delivery of an expired job, and emits job.expired', async () => {
  const { id } = await pushed(harness.ledger, { expiresAt: NOW })
  await expiring(async () => expect(await stateOf(id)).toBe('discarded'))
  expect(unparked).toEqual([id])
  expect(stage.events.map(({ type }) => type)).toEqual(['job.expired'])
})
