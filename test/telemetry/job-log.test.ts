import { expect, it, onTestFinished, vi } from 'vitest'
import type { Logger } from '../../src/logger.ts'
import type { JobEvent } from '../../src/telemetry/events.ts'
import { jobLog } from '../../src/telemetry/job-log.ts'
import { jobRow } from '../http/job-rows.ts'
import { workflowRow } from './workflow-rows.ts'

const SECRET = 'attack at dawn'
const failure = { code: 'boom', type: 'Boom', message: SECRET, retryable: false }

function open(isDebug: boolean, now = () => 0) {
  const lines: Record<string, unknown>[] = []
  const at = (level: string) => (fields: object, msg: string) =>
    lines.push({ level, ...fields, msg })
  const logger: Logger = {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
  }
  return { lines, log: jobLog(logger, { isDebug, now }) }
}

function linesOf(event: JobEvent, isDebug: boolean) {
  const { lines, log } = open(isDebug)
  log(event)
  return lines
}

function lineOf(event: JobEvent) {
  const lines = linesOf(event, true)
  expect(lines).toHaveLength(1)
  expect(lines[0]?.['level'] === 'debug' ? [] : lines).toEqual(linesOf(event, false))
  return lines[0]
}

it('the log line of a job has its ids, attempt and request, but not its result or errors', () => {
  const job = jobRow({ attempt: 2, result: SECRET, error: SECRET, errors: SECRET })
  const line = lineOf({ type: 'job.discarded', job, requestId: 'req_1' })
  expect(line).toMatchObject({ level: 'info', msg: 'job.discarded', jobId: job.id })
  expect(line).toMatchObject({ queue: 'email', type: 'email.send', attempt: 2, requestId: 'req_1' })
  expect(JSON.stringify(line)).not.toContain(SECRET)
})

it('the log line of a job has the trace id of a valid traceparent only', () => {
  const trace = '0af7651916cd43dd8448eb211c80319c'
  const traceIdOf = (traceparent: string) =>
    lineOf({ type: 'job.completed', job: jobRow({ carry: { traceparent } }) })?.['traceId']
  expect(traceIdOf(`00-${trace}-b7ad6b7169203331-01`)).toBe(trace)
  expect(traceIdOf(trace)).toBe(undefined)
})

it('the log lines of a pause and a workflow have the request id, and the open steps of the workflow', () => {
  const asked = { level: 'info', requestId: 'req_1' }
  const paused = lineOf({ type: 'queue.paused', queue: 'q', requestId: 'req_1' })
  expect(paused).toEqual({ ...asked, msg: 'queue.paused', queue: 'q' })
  const workflow = workflowRow({ open: 3 })
  const started = lineOf({ type: 'workflow.started', workflow, requestId: 'req_1' })
  expect(started).toEqual({ ...asked, msg: 'workflow.started', workflowId: 'w', open: 3 })
})

it('the log line of job.failed has the error code, but not the message', () => {
  const line = lineOf({ type: 'job.failed', job: jobRow({ attempt: 3 }), attempt: 2, failure })
  expect(line).toMatchObject({ level: 'info', attempt: 2, errorCode: 'boom', retryable: false })
  expect(JSON.stringify(line)).not.toContain(SECRET)
})

it('the log line of job.retrying has the delay', () => {
  const job = jobRow({ retryDelayMs: 1_400 })
  const line = lineOf({ type: 'job.retrying', job, failure })
  expect(line).toMatchObject({ level: 'info', delayMs: 1_400 })
  expect(JSON.stringify(line)).not.toContain(SECRET)
})

it('the log has no line for each job of a batch', () => {
  for (const type of ['job.enqueued', 'job.scheduled', 'job.staged'] as const) {
    expect(linesOf({ type, job: jobRow(), inBatch: true }, true)).toEqual([])
    expect(linesOf({ type, job: jobRow() }, true)).toHaveLength(1)
  }
})

it('the log line of job.heartbeat has the level debug', () => {
  const job = { id: 'x', queue: 'q', type: 't', attempt: 1, leaseExpiresAt: 1 }
  expect(lineOf({ type: 'job.heartbeat', job, workerId: 'w1' })).toEqual({
    level: 'debug',
    msg: 'job.heartbeat',
    jobId: 'x',
    queue: 'q',
    type: 't',
    attempt: 1,
    workerId: 'w1',
  })
})

it('the log does not read a heartbeat unless the level is debug', () => {
  const job = new Proxy(
    { id: 'x', queue: 'q', type: 't', attempt: 1, leaseExpiresAt: 1 },
    {
      get: (_, member) => {
        throw new Error(`read ${String(member)}`)
      },
    },
  )
  expect(linesOf({ type: 'job.heartbeat', job, workerId: 'w1' }, false)).toEqual([])
})

it('the log warns of a malformed message, with at most 255 characters of its id', () => {
  const event = { type: 'message.malformed', queue: 'q', error: new Error('no args') } as const
  const line = { level: 'warn', msg: 'malformed message', queue: 'q', reason: 'no args' }
  expect(lineOf({ ...event, id: 'x' })).toEqual({ ...line, jobId: 'x' })
  expect(lineOf({ ...event, id: '' })).toEqual(line)
  // The id is from the body, so it may have any length.
  expect(lineOf({ ...event, id: 'x'.repeat(300) })).toEqual({ ...line, jobId: 'x'.repeat(255) })
})

it('the log warns of at most ten malformed messages in 10 s, and then of the number of others', () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  let now = 0
  const { lines, log } = open(false, () => now)
  const flood = () => {
    for (let i = 0; i < 100; i++)
      log({ type: 'message.malformed', queue: 'q', id: 'x', error: new Error('no args') })
  }
  flood()
  expect(lines).toHaveLength(10)
  now = 10_001
  flood()
  expect(lines).toHaveLength(20)
  expect(lines[10]).toMatchObject({ reason: 'no args', suppressed: 90 })
  vi.advanceTimersByTime(10_000)
  expect(lines.slice(20)).toEqual([
    { level: 'warn', suppressed: 90, msg: 'more malformed messages' },
  ])
})

const CRON = { name: 'nightly', expression: '0 0 * * *', jobType: 't', queue: 'q' }

it('the log lines of a cron tick have its outcome', () => {
  const fields = { level: 'info', cron: 'nightly', tick: 1_000, type: 't', queue: 'q' }
  const at = { cron: CRON, scheduledAt: 1_000 }
  const job = jobRow({ id: 'j', queue: 'q', type: 't' })
  expect(lineOf({ type: 'cron.triggered', ...at, job })).toEqual({
    ...fields,
    msg: 'cron.triggered',
    jobId: 'j',
  })
  const overlap = { reason: 'overlap', existingJobId: 'i' } as const
  expect(lineOf({ type: 'cron.skipped', ...at, ...overlap })).toEqual({
    ...fields,
    msg: 'cron.skipped',
    reason: 'overlap',
    jobId: 'i',
  })
  const missed = { reason: 'missed', count: 100, hasMore: true } as const
  expect(lineOf({ type: 'cron.skipped', ...at, ...missed })).toEqual({
    ...{ ...fields, ...missed },
    msg: 'cron.skipped',
  })
})
