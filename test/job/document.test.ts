import { expect, it } from 'vitest'
import { jobDocument } from '../../src/job/document.ts'
import { freshRow, type JobRow } from '../../src/job/job.ts'

const NOW = Date.parse('2026-02-12T10:30:00.000Z')

function row(over: Partial<JobRow> = {}): JobRow {
  const job = {
    id: '019539a4-b68c-7def-8000-1a2b3c4d5e6f',
    type: 'a',
    queue: 'q',
    priority: 0,
    maxAttempts: 3,
    visibilityTimeoutMs: null,
    timeoutMs: 0,
    expiresAt: null,
    createdAt: NOW,
    envelope: '{"id":"x","args":["}"],"vendor":1}',
    carry: null,
  }
  return { ...freshRow(job, { generation: 0, outbox: 1, enqueuedAt: NOW }), ...over }
}

it('splices the life of the job behind the frozen envelope', () => {
  expect(JSON.parse(jobDocument(row()))).toEqual({
    id: 'x',
    args: ['}'],
    vendor: 1,
    state: 'available',
    attempt: 0,
    enqueued_at: '2026-02-12T10:30:00.000Z',
  })
})

it('shows what an ended job has, and nothing that does not apply', () => {
  const done = row({
    state: 'completed',
    attempt: 2,
    workerId: 'w',
    startedAt: NOW + 1,
    completedAt: NOW + 2,
    result: '{"ok":true}',
    errors: '[{"attempt":1}]',
  })
  expect(JSON.parse(jobDocument(done))).toMatchObject({
    state: 'completed',
    attempt: 2,
    started_at: '2026-02-12T10:30:00.001Z',
    completed_at: '2026-02-12T10:30:00.002Z',
    result: { ok: true },
    errors: [{ attempt: 1 }],
  })
  expect(jobDocument(done)).not.toContain('worker_id')
  expect(jobDocument(done)).not.toContain('null')
})

it('escapes a worker id', () => {
  const active = row({ state: 'active', workerId: 'w"\n' })
  expect(JSON.parse(jobDocument(active))['worker_id']).toBe('w"\n')
})
