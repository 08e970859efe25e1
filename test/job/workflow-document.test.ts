import { expect, it } from 'vitest'
import { workflowDocument } from '../../src/job/workflow-document.ts'
import type { WorkflowRow, WorkflowStep } from '../../src/job/workflow-row.ts'

const AT = Date.parse('2026-02-12T10:30:00.000Z')

function step(node: number, given: Partial<WorkflowStep>): WorkflowStep {
  return {
    id: `s${node}`,
    type: 't',
    isCallback: false,
    dependsOn: [],
    progress: 'failed',
    state: 'discarded',
    jobId: `job-${node}`,
    startedAt: null,
    endedAt: AT,
    attempt: 1,
    result: null,
    resultBytes: 0,
    error: '{"code":"e","message":"m"}',
    ...given,
  }
}

it('tells of the failure that was first, and of those that have a job', () => {
  const steps = [
    step(0, { endedAt: AT + 9 }),
    step(1, { endedAt: AT }),
    step(2, { endedAt: AT + 5, jobId: null }),
    step(3, { progress: 'completed', state: 'completed' }),
  ]
  const head = { id: 'w', name: null, type: 'group', state: 'failed', createdAt: AT } as const
  const counts = { total: 4, completed: 1, failed: 3, open: 0 }
  const row: WorkflowRow = { ...head, ...counts, endedAt: AT + 9, startedAt: null, steps }
  const document = JSON.parse(workflowDocument(row))
  expect(document).toMatchObject({
    failed_step_id: 's1',
    failed_step_index: 1,
    failed_job_ids: ['job-1', 'job-0'],
  })
  expect(document.errors.map((error: { job_id: unknown }) => error.job_id)).toEqual([
    'job-1',
    null,
    'job-0',
  ])
  expect(document.steps[3]).not.toHaveProperty('error')
})
