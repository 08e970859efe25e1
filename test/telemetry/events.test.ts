import { beforeEach, describe, expect, it } from 'vitest'
import { createJobEvents, type JobEvent, type JobEvents } from '../../src/telemetry/events.ts'
import { jobRow } from '../http/job-rows.ts'

const job = jobRow()
const other = jobRow({ id: '0197a2b4-0000-7000-8000-00000000000b' })

describe('the first event of a job', () => {
  let told: string[]
  let events: JobEvents

  beforeEach(() => {
    told = []
    const listener = (event: JobEvent) => {
      told.push('job' in event ? `${event.type} ${event.job.id}` : event.type)
    }
    events = createJobEvents([listener])
    events.hold({ type: 'job.enqueued', job })
  })

  it('is told once, when the job is known to stay', () => {
    expect(told).toEqual([])
    events.release(job.id)
    events.release(job.id)
    expect(told).toEqual([`job.enqueued ${job.id}`])
  })

  it('comes before what a faster worker does, and not again', () => {
    events.emit({ type: 'job.started', job })
    events.release(job.id)
    expect(told).toEqual([`job.enqueued ${job.id}`, `job.started ${job.id}`])
  })

  it('has nothing to do with other jobs', () => {
    events.emit({ type: 'job.started', job: other })
    events.emit({ type: 'queue.paused', queue: job.queue })
    expect(told).toEqual([`job.started ${other.id}`, 'queue.paused'])
  })

  it('is not told of a job that was taken back', () => {
    events.drop(job.id)
    events.release(job.id)
    expect(told).toEqual([])
  })
})

describe('a dead letter', () => {
  const dead = { ...job, state: 'discarded' as const, isDeadLetter: true }

  it.each([
    [
      'that failed',
      { type: 'job.discarded', job: dead, requestId: 'req_1' },
      ['dead_letter.added'],
    ],
    ['that expired', { type: 'job.expired', job: dead }, ['dead_letter.added']],
    ['is no plain discard', { type: 'job.discarded', job: { ...dead, isDeadLetter: false } }, []],
    ['is told when it comes, not when it goes', { type: 'dead_letter.deleted', job: dead }, []],
  ] as [string, JobEvent, string[]][])('%s', (_what, end, behind) => {
    const told: JobEvent[] = []
    createJobEvents([(event) => told.push(event)]).emit(end)
    expect(told.map(({ type }) => type)).toEqual([end.type, ...behind])
    for (const event of told) expect(event).toMatchObject({ ...end, type: event.type })
  })
})
