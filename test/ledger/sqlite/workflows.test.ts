import { expect, it } from 'vitest'
import type { NewWorkflow } from '../../../src/ledger/workflows.ts'
import { newGraph } from '../../support/gateway/workflows.ts'
import { failAttempt, jobMessage, NOW, pushed, rowOf, TERMS } from '../harness.ts'
import { ledgerOfTest } from './harness.ts'

const harness = ledgerOfTest()

/** Creates a workflow and claims its first job. */
async function started(workflow: NewWorkflow = newGraph({ a: [], b: ['a'] })) {
  const { ledger } = harness
  await ledger.workflows.create(workflow, NOW)
  const jobId = (await ledger.read.workflows.find(workflow.id))?.steps[0]?.jobId ?? ''
  await ledger.claim([jobMessage(jobId)], TERMS)
  return { workflow, jobId }
}

/** Makes the next change of the workflow's row break a constraint, as a fault could leave it. */
function corrupt({ id }: NewWorkflow): void {
  harness.db.prepare('UPDATE workflows SET open = 0 WHERE id = ?').run(id)
}

it.each<[string, (jobId: string) => Promise<unknown>]>([
  ['ACK', (jobId) => harness.ledger.complete(jobId, {}, { now: NOW, result: null })],
  ['CANCEL', (jobId) => harness.ledger.cancel(jobId, NOW)],
  [
    'FAIL',
    (jobId) => {
      const failure = { now: NOW, error: null, errors: null, isDeadLetter: true } as const
      const fence = { generation: 0, attempt: 1 }
      return failAttempt(harness.ledger, jobId, fence, {
        ...failure,
        to: 'discarded',
        copy: 'nack',
      })
    },
  ],
])('%s and the steps that it begins are stored together or not at all', async (_, end) => {
  const { workflow, jobId } = await started()
  const before = await rowOf(harness.ledger, jobId)
  corrupt(workflow)
  // Another write of the same group commit is not affected.
  const [refused, beside] = await Promise.allSettled([end(jobId), pushed(harness.ledger)])
  expect([refused.status, beside.status]).toEqual(['rejected', 'fulfilled'])
  expect(await rowOf(harness.ledger, jobId)).toEqual(before)
  const { steps } = (await harness.ledger.read.workflows.find(workflow.id)) ?? {}
  expect(steps?.map(({ progress }) => progress)).toEqual(['started', 'waiting'])
  expect(harness.ledger.known.counts('default')).toMatchObject({ active: 1, available: 1 })
})

it('a report that ends steps of two workflows is stored for both or for none', async () => {
  const [sound, broken] = [await started(), await started()]
  corrupt(broken.workflow)
  const said = { event: 'completed', result: null } as const
  const events = [sound, broken].map(({ jobId: id }) => {
    return { id, generation: 0, attempt: 1, workerId: 'worker-1', said }
  })
  const terms = { now: NOW, defaultLeaseMs: 9, random: () => 0 }
  const report = harness.ledger.applyReports(events, terms)
  const [refused] = await Promise.allSettled([report, pushed(harness.ledger)])
  expect(refused.status).toBe('rejected')
  expect((await harness.ledger.read.workflows.find(sound.workflow.id))?.completed).toBe(0)
})
