import { expect, test } from 'vitest'
import type { ProgressNote } from '../../../src/job/progress.ts'
import { workflowProgress } from '../../../src/job/workflow/progress.ts'
import type { WorkflowRow, WorkflowStep } from '../../../src/job/workflow/row.ts'

const AT = Date.parse('2026-02-12T10:30:00.000Z')

const step = (id: string, given: Partial<WorkflowStep> = {}): WorkflowStep => ({
  ...{ id, type: 't', isCallback: false, dependsOn: [], progress: 'started', state: 'active' },
  ...{ jobId: `job-${id}`, startedAt: AT, endedAt: null, attempt: 1, result: null },
  ...{ resultBytes: 0, error: null },
  ...given,
})

const waiting = { progress: 'waiting', state: 'pending', jobId: null, startedAt: null } as const

const note = (progress: number | null, data: string | null = null, updatedAt = AT) => ({
  ...{ generation: 0, attempt: 1, progress, data, message: null, updatedAt, toldAt: AT },
})

function told(
  type: WorkflowRow['type'],
  steps: WorkflowStep[],
  notes: Record<string, ProgressNote>,
) {
  const row: WorkflowRow = {
    ...{ id: 'w', name: null, type, state: 'running', createdAt: AT, startedAt: AT, endedAt: null },
    ...{ total: steps.length, completed: 0, failed: 0, open: 1, steps },
  }
  const byJob = Object.entries(notes).map(([id, one]) => [`job-${id}`, one] as const)
  return JSON.parse(workflowProgress(row, new Map(byJob)))
}

test('a chain is as far as its completed steps and the one that runs, by their number', () => {
  const done = step('a', { progress: 'completed', state: 'completed', endedAt: AT + 5 })
  const answer = told('chain', [done, step('b'), step('c', waiting), step('d', waiting)], {
    b: note(0.5, '{"page":1}', AT + 7),
  })
  expect(answer).toEqual({
    workflow_id: 'w',
    id: 'w',
    type: 'chain',
    progress: 0.375,
    updated_at: '2026-02-12T10:30:00.007Z',
    steps: [
      { id: 'a', job_id: 'job-a', type: 't', state: 'completed', progress: 1 },
      { id: 'b', job_id: 'job-b', type: 't', state: 'active', progress: 0.5, data: { page: 1 } },
      { id: 'c', job_id: null, type: 't', state: 'pending', progress: null },
      { id: 'd', job_id: null, type: 't', state: 'pending', progress: null },
    ],
  })
})

test('a failed step counts as far as it came, one that says only words not at all', () => {
  const failed = step('a', { progress: 'failed', state: 'discarded', endedAt: AT + 9 })
  const answer = told('group', [failed, step('b')], { a: note(0.5), b: note(null, '{}') })
  expect(answer).toMatchObject({ progress: 0.25, updated_at: '2026-02-12T10:30:00.009Z' })
  expect(answer.steps).toMatchObject([{ progress: 0.5 }, { progress: null, data: {} }])
})

test('a batch counts completed jobs, and no callbacks', () => {
  const done = step('a', { progress: 'completed', state: 'completed', endedAt: AT })
  const callback = step('on_complete', { isCallback: true, ...waiting })
  const answer = told('batch', [done, step('b'), callback], { b: note(0.9) })
  expect(answer).toMatchObject({ progress: 0.5, steps: [{ id: 'a' }, { progress: 0.9 }] })
})
