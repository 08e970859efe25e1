import { beforeEach, expect, test, vi } from 'vitest'
import type { WorkflowHead } from '../../src/job/workflow/row.ts'
import { cancel } from '../../src/operations/cancel.ts'
import { listCron, registerCron, removeCron } from '../../src/operations/cron/cron.ts'
import { listDeadLetters, retryDeadLetter } from '../../src/operations/dead-letters/dead-letters.ts'
import { activate } from '../../src/operations/enqueue/activate.ts'
import { push } from '../../src/operations/enqueue/push.ts'
import { pushBatch } from '../../src/operations/enqueue/push-batch.ts'
import { fetch } from '../../src/operations/fetch/fetch.ts'
import { health } from '../../src/operations/health.ts'
import { info } from '../../src/operations/info.ts'
import { ack } from '../../src/operations/lease/ack.ts'
import { heartbeat } from '../../src/operations/lease/heartbeat.ts'
import { nack } from '../../src/operations/lease/nack.ts'
import { pauseQueue, resumeQueue } from '../../src/operations/queues/pause.ts'
import { listQueues, queueStats } from '../../src/operations/queues/queues.ts'
import { getSchema, listSchemas, registerSchema } from '../../src/operations/schemas.ts'
import {
  cancelWorkflow,
  createWorkflow,
  getWorkflow,
  listWorkflows,
} from '../../src/operations/workflows/workflows.ts'
import { openDoor } from './door.ts'
import { cronEntry, jobRow } from './job-rows.ts'
import { request } from './raw-client.ts'

vi.mock('../../src/operations/lease/ack.ts')
vi.mock('../../src/operations/enqueue/activate.ts')
vi.mock('../../src/operations/cancel.ts')
vi.mock('../../src/operations/cron/cron.ts')
vi.mock('../../src/operations/dead-letters/dead-letters.ts')
vi.mock('../../src/operations/fetch/fetch.ts')
vi.mock('../../src/operations/health.ts')
vi.mock('../../src/operations/lease/heartbeat.ts')
vi.mock('../../src/operations/info.ts')
vi.mock('../../src/operations/lease/nack.ts')
vi.mock('../../src/operations/queues/pause.ts')
vi.mock('../../src/operations/enqueue/push.ts')
vi.mock('../../src/operations/enqueue/push-batch.ts')
vi.mock('../../src/operations/queues/queues.ts')
vi.mock('../../src/operations/schemas.ts')
vi.mock('../../src/operations/workflows/workflows.ts')

const HEAD: WorkflowHead = {
  id: 'x',
  name: null,
  type: 'chain',
  state: 'cancelled',
  createdAt: 0,
  endedAt: 0,
  total: 0,
  completed: 0,
  failed: 0,
  open: 0,
}

const COUNTS = {
  available: 0,
  scheduled: 0,
  pending: 0,
  active: 0,
  retryable: 0,
  completed: 0,
  cancelled: 0,
  discarded: 0,
}

beforeEach(() => {
  const job = jobRow()
  vi.mocked(push).mockResolvedValue({ job })
  vi.mocked(pushBatch).mockResolvedValue({ jobs: [job], existing: [] })
  vi.mocked(info).mockResolvedValue({ job: job, progress: null })
  vi.mocked(cancel).mockResolvedValue({ job, previousState: 'available', isMessageOwed: false })
  vi.mocked(activate).mockResolvedValue(job)
  vi.mocked(fetch).mockResolvedValue([])
  vi.mocked(ack).mockResolvedValue(job)
  vi.mocked(nack).mockResolvedValue(job)
  vi.mocked(heartbeat).mockResolvedValue({
    directive: 'running',
    extended: [],
    cancelled: [],
    serverTime: 0,
  })
  vi.mocked(listQueues).mockResolvedValue({ queues: [], total: 0 })
  const schema = { uri: 'urn:a', type: 'a', version: 1, createdAt: 0 }
  vi.mocked(listSchemas).mockResolvedValue({ schemas: [schema], total: 1 })
  vi.mocked(registerSchema).mockResolvedValue({ schema, isNew: true })
  vi.mocked(getSchema).mockResolvedValue({ ...schema, content: '{}' })
  vi.mocked(queueStats).mockResolvedValue({
    status: 'active',
    counts: COUNTS,
    held: 0,
    lastHour: {
      enqueued: 0,
      completed: 0,
      failed: 0,
      retried: 0,
      timed: 0,
      durationMs: 0,
      waited: 0,
      waitMs: 0,
    },
    oldest: { available: null, retryable: null, scheduled: null },
    computedAt: 0,
  })
  vi.mocked(pauseQueue).mockResolvedValue({ pausedAt: 0 })
  vi.mocked(resumeQueue).mockResolvedValue({ resumedAt: 0 })
  const workflow = { ...HEAD, startedAt: null, steps: [] }
  vi.mocked(createWorkflow).mockResolvedValue({ workflow })
  vi.mocked(getWorkflow).mockResolvedValue(workflow)
  vi.mocked(listWorkflows).mockResolvedValue({ workflows: [HEAD], total: 1 })
  vi.mocked(cancelWorkflow).mockResolvedValue({ workflow: HEAD, stepsCancelled: 0 })
  vi.mocked(listDeadLetters).mockResolvedValue({
    ...{ jobs: [], next: null, isEarly: false, searched: null },
    total: { count: 0, isBound: false },
  })
  vi.mocked(listCron).mockResolvedValue({ entries: [], total: 0 })
  vi.mocked(registerCron).mockResolvedValue({
    entry: cronEntry(),
    isReplaced: false,
    warnings: [],
  })
  vi.mocked(removeCron).mockResolvedValue()
  vi.mocked(retryDeadLetter).mockResolvedValue(job)
  vi.mocked(health).mockResolvedValue({ healthy: true, body: {} } as Awaited<
    ReturnType<typeof health>
  >)
})

const APPENDIX_A: [method: string, path: string][] = [
  ['GET', '/ojs/manifest'],
  ['GET', '/ojs/v1/health'],
  ['POST', '/ojs/v1/jobs'],
  ['POST', '/ojs/v1/jobs/batch'],
  ['GET', '/ojs/v1/jobs/x'],
  ['DELETE', '/ojs/v1/jobs/x'],
  ['POST', '/ojs/v1/jobs/x/activate'],
  ['POST', '/ojs/v1/workers/fetch'],
  ['POST', '/ojs/v1/workers/ack'],
  ['POST', '/ojs/v1/workers/nack'],
  ['POST', '/ojs/v1/workers/heartbeat'],
  ['GET', '/ojs/v1/queues'],
  ['GET', '/ojs/v1/queues/x/stats'],
  ['POST', '/ojs/v1/queues/x/pause'],
  ['POST', '/ojs/v1/queues/x/resume'],
  ['GET', '/ojs/v1/dead-letter'],
  ['POST', '/ojs/v1/dead-letter/x/retry'],
  ['DELETE', '/ojs/v1/dead-letter/x'],
  ['GET', '/ojs/v1/cron'],
  ['POST', '/ojs/v1/cron'],
  ['DELETE', '/ojs/v1/cron/x'],
  ['POST', '/ojs/v1/workflows'],
  ['GET', '/ojs/v1/workflows'],
  ['GET', '/ojs/v1/workflows/x'],
  ['DELETE', '/ojs/v1/workflows/x'],
  ['GET', '/ojs/v1/schemas'],
  ['POST', '/ojs/v1/schemas'],
  ['GET', '/ojs/v1/schemas/urn%3Aojs%3Aschema%3Aa%3Av1'],
  ['DELETE', '/ojs/v1/schemas/urn%3Aojs%3Aschema%3Aa%3Av1'],
]

test.each(APPENDIX_A)('%s %s is served (seed 001, Appendix A)', async (method, path) => {
  const door = await openDoor()
  const body = method === 'POST' ? '{}' : undefined
  const { status } = await door.ask(request(method, path, {}, body))
  expect([200, 201]).toContain(status)
})
