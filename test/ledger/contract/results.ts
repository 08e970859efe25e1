import { describe, expect, it } from 'vitest'
import type { JobRow } from '../../../src/job/job.ts'
import { fenceOf, fetched, jobMessage, NOW, prunedRows, TERMS, type UnderTest } from '../harness.ts'

/** Results that go before their jobs do. */
export function resultContract({ ledger, row }: UnderTest): void {
  const completed = async (resultTtlMs?: number): Promise<JobRow> => {
    const carry = resultTtlMs === undefined ? null : { resultTtlMs }
    const job = await fetched(ledger, { carry })
    const done = await ledger.complete(job.id, fenceOf(job), { now: NOW + 10, result: '{"r":1}' })
    if (!('state' in done)) throw new Error('not completed')
    expect(await row(job.id)).toEqual(done)
    return done
  }

  describe('a result with a time to live', () => {
    it('is dropped when it is over, and nothing else of the job', async () => {
      const [short, long, plain] = [await completed(50), await completed(60), await completed()]
      expect(short.result).toBe('{"r":1}')
      expect(await ledger.pruneResults(NOW + 59, 10)).toBe(0)
      expect(await row(short.id)).toEqual(short)
      expect(await ledger.pruneResults(NOW + 60, 10)).toBe(1)
      expect(await row(short.id)).toEqual({ ...short, result: null })
      expect(await ledger.pruneResults(NOW + 70, 10)).toBe(1)
      expect(await row(long.id)).toEqual({ ...long, result: null })
      expect(await row(plain.id)).toEqual(plain)
      expect(await ledger.pruneResults(NOW + 1e12, 10)).toBe(0)
    })

    it('of 0 is never stored', async () => {
      expect((await completed(0)).result).toBeNull()
      expect(await ledger.pruneResults(NOW + 1e12, 10)).toBe(0)
    })

    it('of many are dropped page by page', async () => {
      for (let i = 0; i < 3; i++) await completed(5)
      expect(await ledger.pruneResults(NOW + 20, 2)).toBe(2)
      expect(await ledger.pruneResults(NOW + 20, 2)).toBe(1)
    })

    it('is none of the job that takes the place of a pruned one', async () => {
      const gone = await completed(50)
      ledger.messageReturned(gone.id, 0)
      expect(await prunedRows({ ledger })).toBe(1)
      const job = await fetched(ledger)
      await ledger.complete(job.id, fenceOf(job), { now: NOW + 20, result: '2' })
      await ledger.pruneResults(NOW + 60, 10)
      expect(await row(job.id)).toMatchObject({ result: '2' })
    })

    it('is that of the last completion', async () => {
      const { id } = await completed(50)
      const bounds = { deadLettersOnly: false, sparesRetried: false, scope: null }
      const how = { action: 'retry', states: ['completed'], ...bounds } as const
      await ledger.bulk.act([id], how, { now: NOW + 20, wall: NOW, cause: {}, maxMs: 1_000 })
      const [again] = await ledger.claim([jobMessage(id, { generation: 1 })], TERMS)
      if (again?.verdict !== 'claimed') throw new Error('not claimed')
      await ledger.complete(id, fenceOf(again.job), { now: NOW + 40, result: '2' })
      expect(await ledger.pruneResults(NOW + 89, 10)).toBe(0)
      expect(await row(id)).toMatchObject({ result: '2' })
      expect(await ledger.pruneResults(NOW + 90, 10)).toBe(1)
      expect(await row(id)).toMatchObject({ state: 'completed', result: null })
    })
  })
}
