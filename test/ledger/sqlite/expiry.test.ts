import { expect, it, vi } from 'vitest'
import { TERMS as CLAIM, jobMessage, NOW, pushed, rowOf } from '../harness.ts'
import { ledgerOfTest, refuseChangesOf } from './harness.ts'

const TERMS = { now: NOW, wall: NOW + 1, limit: 10 }

const harness = ledgerOfTest()

it('expire discards the other jobs when the change of one of them fails', async () => {
  const { ledger, db } = harness
  const ids: string[] = []
  for (let n = 0; n < 3; n++) ids.push((await pushed(ledger, { expiresAt: NOW })).id)
  const [first, second = '', third] = ids
  refuseChangesOf(db, second)
  // A clock that stands, so that a busy machine does not end the page early.
  const clock = vi.spyOn(performance, 'now').mockReturnValue(0)
  const expired = await ledger.expire(TERMS)
  clock.mockRestore()
  expect(expired.map(({ job }) => job.id)).toEqual([first, third])
  expect(await Promise.all(ids.map(async (id) => (await rowOf(ledger, id)).state))).toEqual([
    'discarded',
    'available',
    'discarded',
  ])
  await expect(ledger.expire(TERMS)).rejects.toMatchObject({ status: 500 })
  expect(await harness.inspect()).toEqual([])
  expect(ledger.known.counts('default')).toMatchObject({ available: 1, discarded: 2 })
})

it('expire is before the claims that were asked for after it, in the same group commit', async () => {
  const { ledger } = harness
  const { id } = await pushed(ledger, { expiresAt: NOW })
  const claim = { ...CLAIM, wall: NOW - 1 }
  const [expired, [late]] = await Promise.all([
    ledger.expire(TERMS),
    ledger.claim([jobMessage(id)], claim),
  ])
  expect([expired.length, late?.verdict]).toEqual([1, 'drop'])
})

it('expire stops early when it takes long, after at least one job', async () => {
  const { ledger } = harness
  for (let n = 0; n < 4; n++) await pushed(ledger, { expiresAt: NOW })
  let now = 0
  // Each look at the clock adds 30 ms, and expire looks once for each job.
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => (now += 30))
  const expired: number[] = []
  while (expired.at(-1) !== 0) expired.push((await ledger.expire(TERMS)).length)
  clock.mockRestore()
  expect(expired).toEqual([2, 2, 0])
})
