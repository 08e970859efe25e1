import { beforeEach, expect, it, vi } from 'vitest'
import { DriftWatch } from '../../../src/broker/monitoring/drift-watch.ts'

const MINUTE = 60_000

let now: number
let claimable: number
let unsettled: number
let own: number
/** What is left after `onDrift`. */
let left: number
const onDrift = vi.fn(async (_drift: object) => left)
const warn = vi.fn()
let watch: DriftWatch
beforeEach(() => {
  now = 0
  claimable = 1
  unsettled = 0
  own = 0
  left = 1
  onDrift.mockClear()
  warn.mockClear()
  watch = new DriftWatch({
    now: () => now,
    claimable: () => claimable,
    unsettled: () => unsettled,
    isPlain: () => false,
    consumers: () => own,
    hooks: { jobs: { onDrift } },
    logger: { warn },
  })
})

const drift = (before: number, aloneSince: number | null) => ({
  ...{ queue: 'q', before, aloneSince, isPlain: false },
})

/** Looks every 10 s, from now on until `until`. */
async function look(until: number, ready = 0, consumers = 0): Promise<void> {
  for (; now <= until; now += 10_000) await watch.note('q', { ready, consumers })
}

it('finds jobs without a message after a minute in which the queue was empty at every look', async () => {
  await look(MINUTE - 10_000)
  expect(onDrift).not.toHaveBeenCalled()
  await look(MINUTE)
  expect(onDrift.mock.calls).toEqual([[drift(0, 0)]])
  expect(watch.driftedBefore('q')).toBe(0)
  expect(watch.warnings()).toMatchObject([{ code: 'jobs_without_message', details: { count: 1 } }])
  await look(2 * MINUTE)
  expect(onDrift.mock.calls.slice(1)).toEqual([[drift(MINUTE, 0)]])
  // Logged when the number changes.
  expect(warn).toHaveBeenCalledTimes(1)
  left = 2
  await look(3 * MINUTE)
  expect(warn).toHaveBeenCalledTimes(2)
})

it.each(['ready', 'unsettled', 'claimable'])('begins anew when %s says otherwise', async (what) => {
  await look(MINUTE - 10_000)
  if (what === 'unsettled') unsettled = 1
  if (what === 'claimable') claimable = 0
  await look(now, what === 'ready' ? 1 : 0)
  unsettled = 0
  claimable = 1
  const since = now
  await look(since + MINUTE - 10_000)
  expect(onDrift).not.toHaveBeenCalled()
  await look(since + MINUTE)
  expect(onDrift).toHaveBeenCalledTimes(1)
  await look(now, 1)
  expect([watch.driftedBefore('q'), watch.warnings()]).toEqual([null, []])
})

it('tells since when nobody else has consumed the queue, as far as it has looked', async () => {
  await look(MINUTE, 0, 1)
  expect(onDrift.mock.calls).toEqual([[drift(0, null)]])
  own = 1
  const gone = now
  await look(2 * MINUTE, 0, 1)
  expect(onDrift.mock.calls[1]).toEqual([drift(MINUTE, gone)])
  // Nobody knows who was there during a pause of the looks.
  now += 60_000
  const again = now
  await look(now, 0, 1)
  await look(now + MINUTE, 0, 1)
  expect(onDrift.mock.calls.at(-1)?.[0]).toMatchObject({ aloneSince: again })
})

it('takes a queue that is new since the last round for one that it has looked at since', async () => {
  now = -10_000
  watch.begin()
  now = 0
  watch.begin()
  await look(MINUTE)
  expect(onDrift.mock.calls).toEqual([[drift(0, -10_000)]])
})

it.each([
  ['the round before was long ago', -31_000, 0],
  ['another consumer was there at the first look', -10_000, 10_000],
])('does not if %s', async (what, round, aloneSince) => {
  now = round
  watch.begin()
  now = 0
  watch.begin()
  await look(0, 0, what.startsWith('another') ? 1 : 0)
  await look(MINUTE)
  expect(onDrift.mock.calls[0]?.[0]).toMatchObject({ aloneSince })
})

it('forgets a queue', async () => {
  await look(MINUTE)
  watch.forget('q')
  expect([watch.driftedBefore('q'), watch.warnings()]).toEqual([null, []])
})

it('looks again when reports about the jobs still wait, and warns of nothing', async () => {
  onDrift.mockResolvedValueOnce(null as never)
  await look(MINUTE)
  expect([watch.driftedBefore('q'), watch.warnings()]).toEqual([null, []])
  await look(MINUTE + 10_000)
  expect(onDrift.mock.calls).toEqual([[drift(0, 0)], [drift(0, 0)]])
  expect(watch.driftedBefore('q')).toBe(0)
})

it('shows no warning when everything was published again', async () => {
  left = 0
  await look(MINUTE)
  expect([watch.warnings(), warn.mock.calls]).toEqual([[], []])
})
