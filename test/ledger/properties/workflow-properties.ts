import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { newGraph } from '../../support/gateway/workflows.ts'
import { FAILED, failAttempt, fenceOf, jobMessage, NOW, TERMS, type UnderTest } from '../harness.ts'
import { hearing } from '../news.ts'

type Steps = Readonly<Record<string, readonly string[]>>

/** For each step, numbers that choose earlier steps as its dependencies. */
const graphs = fc
  .array(fc.array(fc.nat(), { maxLength: 3 }), { minLength: 1, maxLength: 9 })
  .map((wishes): Steps => {
    const before = (wish: readonly number[], i: number) => wish.map((one) => `s${one % i}`)
    const steps = wishes.map((wish, i) => [`s${i}`, [...new Set(i === 0 ? [] : before(wish, i))]])
    return Object.fromEntries(steps)
  })

/** Workflows of any graph whose jobs end in any order, several at a time. */
export function workflowPropertyContract({ harness, row, runs, ...under }: UnderTest): void {
  /** The types of the jobs that began in this run, by the outcomes of the writes. */
  let born: string[] = []
  const ledger = hearing(under.ledger, (one) => {
    if (one.what === 'born') born.push(one.job.type)
  })

  async function end(jobId: string, isGood: boolean): Promise<void> {
    await ledger.claim([jobMessage(jobId)], TERMS)
    if (isGood) {
      await ledger.complete(jobId, {}, { now: NOW, result: null })
      return
    }
    const change = { ...FAILED, to: 'discarded', isDeadLetter: true, copy: 'nack' } as const
    await failAttempt(ledger, jobId, fenceOf(await row(jobId)), change)
  }

  /** Ends several jobs at a time, sometimes with a restart between. Returns which steps succeeded. */
  async function run(id: string, draw: (below: number) => number) {
    const fates = new Map<string, boolean>()
    for (;;) {
      const { steps = [] } = (await ledger.read.workflows.find(id)) ?? {}
      const open = steps.filter(({ progress }) => progress === 'started')
      if (open.length === 0) return fates
      const some = open.filter(() => draw(2) === 0)
      if (draw(5) === 0) await harness.reopen()
      const ending = some.length === 0 ? open : some
      for (const step of ending) fates.set(step.id, draw(6) > 0)
      await Promise.all(ending.map((step) => end(step.jobId ?? '', fates.get(step.id) ?? false)))
    }
  }

  describe('a workflow of any graph whose jobs end in any order, several at a time', () => {
    it('starts each step once, and only after all steps that it depends on have succeeded', async () => {
      await fc.assert(
        fc.asyncProperty(graphs, fc.infiniteStream(fc.nat()), async (steps, draws) => {
          born = []
          const workflow = newGraph(steps)
          await ledger.workflows.create(workflow, NOW)
          const draw = (below: number) => (draws.next().value ?? 0) % below
          const fates = await run(workflow.id, draw)
          expect(born).toHaveLength(fates.size)
          expect(new Set(born)).toEqual(new Set(fates.keys()))
          for (const [id, dependsOn] of Object.entries(steps)) {
            const isReached = dependsOn.every((name) => fates.get(name) === true)
            expect(fates.has(id), id).toBe(isReached)
          }
          const isGood = Object.keys(steps).every((id) => fates.get(id) === true)
          const state = isGood ? 'completed' : 'failed'
          expect(await ledger.read.workflows.find(workflow.id)).toMatchObject({ state, open: 0 })
        }),
        { numRuns: runs(40) },
      )
    })
  })
}
