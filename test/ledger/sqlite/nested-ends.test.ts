import { expect, it } from 'vitest'
import { newWorkflow } from '../../support/gateway/workflows.ts'
import { FAILED, failAttempt, jobMessage, NOW, rowOf, TERMS } from '../harness.ts'
import { openSqliteHarness } from './harness.ts'

const numbered = (n: number, on_conflict: string) => ({
  type: 't',
  args: [n],
  options: { unique: { on_conflict } },
})

it('a job ends although 800 workflows would each replace the job of the next one', async () => {
  const harness = await openSqliteHarness()
  try {
    const { ledger } = harness
    const ids: string[] = []
    for (let n = 0; n < 800; n++) {
      const callbacks = { on_failure: numbered(n + 1, 'replace') }
      const workflow = newWorkflow({ type: 'batch', jobs: [numbered(n, 'reject')], callbacks })
      await ledger.workflows.create(workflow, NOW)
      ids.push(workflow.id)
    }
    const steps = async (n: number) =>
      (await ledger.read.workflows.find(ids[n] ?? ''))?.steps.map(({ progress }) => progress)
    const first = (await ledger.read.workflows.find(ids[0] ?? ''))?.steps[0]?.jobId ?? ''
    await ledger.claim([jobMessage(first)], TERMS)
    const { generation, attempt } = await rowOf(ledger, first)
    const change = { ...FAILED, to: 'discarded', isDeadLetter: true, copy: 'nack' } as const
    const ended = await failAttempt(ledger, first, { generation, attempt }, change)
    expect(ended).toMatchObject({ state: 'discarded' })
    expect(await Promise.all([0, 98].map(steps))).toEqual(Array(2).fill(['failed', 'started']))
    // The limit: this step replaces no job, as if more than 100 jobs had its key.
    expect(await steps(99)).toEqual(['failed', 'failed'])
    expect(await Promise.all([100, 799].map(steps))).toEqual(Array(2).fill(['started', 'waiting']))
    expect(await harness.inspect()).toEqual([])
  } finally {
    await harness.destroy()
  }
})
