import { expect, it, vi } from 'vitest'
import type { JobRow } from '../../../src/job/job.ts'
import { mayHaveMore } from '../../../src/job/page.ts'
import { deadLetters, NOW, overdueRows, pushed } from '../harness.ts'
import { ledgerOfTest } from './harness.ts'

const PAGE = 200
/** Two of them exceed the limit of a page; all of them are a quarter of a small heap. */
const ENVELOPE = JSON.stringify({ args: ['x'.repeat(12 * 1024 * 1024)] })
const COUNT = 5

const harness = ledgerOfTest()

async function plantLarge(change: Partial<JobRow>, count = COUNT): Promise<void> {
  const { ledger } = harness
  const ids = await Promise.all(Array.from({ length: count }, () => pushed(ledger)))
  const { carry: _, ...columns } = change
  await harness.plant(ids.map(({ id }) => ({ id, ...columns, envelope: ENVELOPE })))
}

/** Asks for pages as a caller does, at once while there may be more. */
async function pagesOf(look: () => JobRow[] | Promise<JobRow[]>): Promise<number[]> {
  const sizes: number[] = []
  for (;;) {
    const rows = await look()
    sizes.push(rows.length)
    if (!mayHaveMore(rows, PAGE)) return sizes
  }
}

it('promote takes a few large jobs at a time', async () => {
  await plantLarge({ state: 'scheduled', dueAt: NOW - 1, outbox: null, messageOut: false })
  expect(await pagesOf(() => harness.ledger.promote(NOW, NOW, PAGE))).toEqual([2, 2, 1])
})

it('expire takes a few large jobs at a time', async () => {
  await plantLarge({ expiresAt: NOW - 1 })
  const terms = { now: NOW, wall: NOW, limit: PAGE }
  const expired = async () => (await harness.ledger.expire(terms)).map(({ job }) => job)
  // A constant clock, so that expire does not stop early for the time that it takes.
  const clock = vi.spyOn(performance, 'now').mockReturnValue(0)
  const pages = await pagesOf(expired)
  clock.mockRestore()
  expect(pages).toEqual([2, 2, 1])
})

it('overdue returns a few large jobs, and says that there may be more', async () => {
  const lease = { attempt: 1, outbox: null, leaseMs: 1, leaseExpiresAt: NOW - 1 }
  await plantLarge({ state: 'active', holder: 'ledger', ...lease })
  const clock = vi.spyOn(performance, 'now').mockReturnValue(0)
  const rows = await overdueRows(harness.ledger, NOW, PAGE)
  clock.mockRestore()
  expect(rows).toHaveLength(2)
  expect(mayHaveMore(rows, PAGE)).toBe(true)
})

it('prune takes one large job at a time', async () => {
  const over = { attempt: 1, completedAt: NOW, outbox: null, messageOut: false }
  await plantLarge({ state: 'completed', ...over })
  const cutoffs = { completed: NOW, cancelled: 0, discarded: 0, deadLetters: 0, withdrawn: 0 }
  const pruned: number[] = []
  while (pruned.at(-1) !== 0) pruned.push(await harness.ledger.prune(cutoffs, NOW, PAGE))
  expect(pruned).toEqual([1, 1, 1, 1, 1, 0])
})

it('a list of whole dead letters has a few large ones a page', async () => {
  const dead = { attempt: 1, discardedAt: NOW, isDeadLetter: true, outbox: null, messageOut: false }
  await plantLarge({ state: 'discarded', ...dead }, 7)
  const page = async (offset: number) =>
    (await deadLetters(harness.ledger, null, { limit: 100, offset })).length
  expect([await page(0), await page(6)]).toEqual([6, 1])
})

it('cron.due and cron.releasable return a few large entries at a time', async () => {
  const { cron } = harness.ledger
  const template = { type: 'a', args: ['x'.repeat(1_500_000)] }
  const rest = { expression: '* * * * *', timezone: 'UTC', description: null, template } as const
  const given = { isEnabled: true, overlap: 'enqueue', ...rest } as const
  const first = { nextRunAt: NOW, createdAt: NOW, limit: 100 }
  for (const name of ['a', 'b', 'c', 'd', 'e']) await cron.register({ name, ...given }, first)
  harness.db.exec(`UPDATE cron_jobs SET queued = '[${NOW - 1}]'`)
  const names = (entries: readonly { name: string }[]) => entries.map(({ name }) => name)
  expect(names(await harness.ledger.read.cron.due(NOW, 50))).toEqual(['a', 'b'])
  expect(names(await harness.ledger.read.cron.releasable('', 50))).toEqual(['a', 'b'])
  expect(names(await harness.ledger.read.cron.releasable('b', 50))).toEqual(['c', 'd'])
  expect(names(await harness.ledger.read.cron.releasable('e', 50))).toEqual([])
})
