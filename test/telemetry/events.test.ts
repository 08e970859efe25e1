import { beforeEach, describe, expect, it } from 'vitest'
import { createJobEvents, type JobEvent, type JobEvents } from '../../src/telemetry/events.ts'
import { jobRow } from '../http/job-rows.ts'

const job = jobRow()
const other = jobRow({ id: '0197a2b4-0000-7000-8000-00000000000b' })

describe('the held first event of a job', () => {
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

  it('is emitted once, when it is released', () => {
    expect(told).toEqual([])
    events.release(job.id)
    events.release(job.id)
    expect(told).toEqual([`job.enqueued ${job.id}`])
  })

  it('is emitted before a later event of the job, and not again at its release', () => {
    events.emit({ type: 'job.started', job })
    events.release(job.id)
    expect(told).toEqual([`job.enqueued ${job.id}`, `job.started ${job.id}`])
  })

  it('does not delay events of other jobs and queues', () => {
    events.emit({ type: 'job.started', job: other })
    events.emit({ type: 'queue.paused', queue: job.queue })
    expect(told).toEqual([`job.started ${other.id}`, 'queue.paused'])
  })

  it('is not emitted if it is dropped', () => {
    events.drop(job.id)
    events.release(job.id)
    expect(told).toEqual([])
  })
})

describe('dead_letter.added', () => {
  const dead = { ...job, state: 'discarded' as const, isDeadLetter: true }

  it.each([
    [
      'is emitted behind job.discarded of a dead letter',
      { type: 'job.discarded', job: dead, requestId: 'req_1' },
      ['dead_letter.added'],
    ],
    [
      'is emitted behind job.expired of a dead letter',
      { type: 'job.expired', job: dead },
      ['dead_letter.added'],
    ],
    [
      'is not emitted behind job.discarded of another job',
      { type: 'job.discarded', job: { ...dead, isDeadLetter: false } },
      [],
    ],
    ['is not emitted behind dead_letter.deleted', { type: 'dead_letter.deleted', job: dead }, []],
  ] as [string, JobEvent, string[]][])('%s', (_what, end, behind) => {
    const told: JobEvent[] = []
    createJobEvents([(event) => told.push(event)]).emit(end)
    expect(told.map(({ type }) => type)).toEqual([end.type, ...behind])
    for (const event of told) expect(event).toMatchObject({ ...end, type: event.type })
  })
})
