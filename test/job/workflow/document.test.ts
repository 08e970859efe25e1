import { describe, expect, it } from 'vitest'
import {
  cancellationDocument,
  workflowDocument,
  workflowSummary,
} from '../../../src/job/workflow/document.ts'
import type { WorkflowRow, WorkflowStep } from '../../../src/job/workflow/row.ts'

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

function row(given: Partial<WorkflowRow>): WorkflowRow {
  return {
    id: 'w',
    name: 'n',
    type: 'batch',
    state: 'running',
    createdAt: AT,
    startedAt: null,
    endedAt: null,
    total: 3,
    completed: 1,
    failed: 0,
    open: 2,
    steps: [],
    ...given,
  }
}

const documentOf = (given: Partial<WorkflowRow>) => JSON.parse(workflowDocument(row(given)))

const at = (ms: number) => `2026-02-12T10:30:00.00${ms}Z`
const COUNTS = { steps_total: 3, steps_completed: 1, jobs_total: 3, jobs_completed: 1 }
const waiting = {
  progress: 'waiting',
  state: 'pending',
  jobId: null,
  endedAt: null,
  error: null,
} as const

it('the document of a running workflow shows the progress of each step', () => {
  const over = { state: 'completed', progress: 'completed', error: null } as const
  const running = { state: 'active', progress: 'started', endedAt: null, error: null } as const
  const steps = [
    step(0, { ...over, startedAt: AT + 1, endedAt: AT + 2, result: '{"x":1}', resultBytes: 7 }),
    step(1, { ...running, startedAt: AT + 3, dependsOn: ['s0'] }),
    step(2, { ...waiting, type: 'u', dependsOn: ['s0', 's1'] }),
    step(3, { ...waiting, isCallback: true, id: 'on_complete' }),
  ]
  expect(documentOf({ startedAt: AT + 1, steps })).toEqual({
    id: 'w',
    name: 'n',
    type: 'batch',
    state: 'running',
    ...COUNTS,
    created_at: at(0),
    started_at: at(1),
    steps: [
      {
        id: 's0',
        type: 't',
        state: 'completed',
        job_id: 'job-0',
        started_at: at(1),
        completed_at: at(2),
        depends_on: [],
        result: { x: 1 },
      },
      {
        id: 's1',
        type: 't',
        state: 'active',
        job_id: 'job-1',
        started_at: at(3),
        depends_on: ['s0'],
      },
      { id: 's2', type: 'u', state: 'pending', job_id: null, depends_on: ['s0', 's1'] },
    ],
    callbacks: [{ id: 'on_complete', type: 't', state: 'pending', job_id: null, depends_on: [] }],
    metadata: {
      created_at: at(0),
      started_at: at(1),
      job_count: 3,
      completed_count: 1,
      failed_count: 0,
    },
  })
})

it('the document has no callbacks, name or start when the workflow has none', () => {
  const document = documentOf({ name: null, steps: [step(0, waiting)] })
  for (const member of ['callbacks', 'name', 'started_at', 'failed_step_id', 'errors']) {
    expect(document).not.toHaveProperty(member)
  }
})

it.each([
  ['cancelled', 'cancelled', { cancelled_at: at(2) }],
  ['completed', 'completed', { completed_at: at(2) }],
  ['failed', 'discarded', { completed_at: at(2) }],
] as const)(
  'the document of a workflow that is %s has its end time, as has a step that is %s',
  (state, of, end) => {
    const ended = step(0, { state: of, progress: 'cancelled', endedAt: AT + 2, error: null })
    const { steps, ...document } = documentOf({ state, endedAt: AT + 2, steps: [ended] })
    expect(document).toMatchObject(end)
    expect(document.metadata).toMatchObject(end)
    expect(steps).toEqual([
      { id: 's0', type: 't', state: of, job_id: 'job-0', ...end, depends_on: [] },
    ])
  },
)

it('the document shows no end time of a step that never had a job', () => {
  const [never] = documentOf({ steps: [step(0, { jobId: null, error: null })] }).steps
  expect(never).toEqual({ id: 's0', type: 't', state: 'discarded', job_id: null, depends_on: [] })
})

describe('the result of a step in the document', () => {
  const shown = (given: Partial<WorkflowStep>) =>
    documentOf({ steps: [step(0, { progress: 'completed', error: null, ...given })] }).steps[0]

  it('is the stored one, a reference to one that was not read, or absent', () => {
    expect(shown({ result: 'null', resultBytes: 4 })).toMatchObject({ result: null })
    expect(shown({ result: '7', resultBytes: 1 })).toMatchObject({ result: 7 })
    expect(shown({ result: null, resultBytes: 70_000 })).toMatchObject({
      result: { result_ref: '/ojs/v1/jobs/job-0', result_size_bytes: 70_000 },
    })
    expect(shown({ result: null, resultBytes: 0 })).not.toHaveProperty('result')
  })

  it('is absent when the step failed', () => {
    const failed = { progress: 'failed', result: '1', resultBytes: 1 } as const
    expect(shown(failed)).not.toHaveProperty('result')
  })

  it('becomes a reference when earlier results have used up the space', () => {
    const large = { progress: 'completed', result: `"${'x'.repeat(65_534)}"` } as const
    const steps = Array.from({ length: 17 }, (_, i) => step(i, { ...large, resultBytes: 65_536 }))
    const results = documentOf({ steps }).steps.map(({ result }: { result: unknown }) => result)
    expect(results.slice(0, 16)).toEqual(Array(16).fill('x'.repeat(65_534)))
    expect(results[16]).toMatchObject({ result_ref: '/ojs/v1/jobs/job-16' })
  })
})

describe('a failure in the document of a workflow', () => {
  const told = (given: Partial<WorkflowStep>) => documentOf({ steps: [step(0, given)] })

  it("has the code, the message and the attempt of the job's error", () => {
    const error = '{"code":"boom","message":"it went off","type":"Boom"}'
    const document = told({ attempt: 3, error })
    expect(document.errors).toEqual([
      { job_id: 'job-0', code: 'boom', message: 'it went off', attempt: 3 },
    ])
    expect(document.steps[0].error).toEqual(JSON.parse(error))
  })

  it('has a message for the state of the job when there is no error', () => {
    const document = told({ state: 'cancelled', error: null })
    expect(document.errors).toEqual([
      { job_id: 'job-0', code: 'cancelled', message: 'The job was cancelled.', attempt: 1 },
    ])
    expect(document.steps[0]).not.toHaveProperty('error')
  })

  it('is shown for a step that is retried, and not for one that succeeded later', () => {
    const trying = told({ progress: 'started', state: 'retryable', endedAt: null })
    expect(trying.steps[0]).toMatchObject({ error: { code: 'e', message: 'm' } })
    expect(trying).not.toHaveProperty('errors')
    expect(told({ progress: 'completed', state: 'completed' }).steps[0]).not.toHaveProperty('error')
  })
})

it('the summary of a workflow in a list is its document without steps', () => {
  const head = { id: 'w', type: 'batch', state: 'failed', ...COUNTS, created_at: at(0) }
  const ended = row({ state: 'failed', startedAt: AT, endedAt: AT + 3, steps: [step(0, {})] })
  expect(workflowSummary(ended)).toEqual({ ...head, name: 'n', completed_at: at(3) })
  expect(workflowSummary({ ...ended, name: null })).toEqual({ ...head, completed_at: at(3) })
})

it('the answer to a cancellation has the numbers of cancelled and completed steps', () => {
  const cancelled = row({ state: 'cancelled', endedAt: AT + 4 })
  const answer = {
    id: 'w',
    state: 'cancelled',
    cancelled_at: at(4),
    steps_cancelled: 2,
    steps_already_completed: 1,
  }
  expect(cancellationDocument(cancelled, 2)).toEqual({ ...answer, name: 'n' })
  expect(cancellationDocument({ ...cancelled, name: null }, 2)).toEqual(answer)
})

it('the document names the first failed step, and failed jobs in the order of their ends', () => {
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
