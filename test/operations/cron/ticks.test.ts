import { beforeEach, describe, expect, it, vi } from 'vitest'
import type { CronDefinition } from '../../../src/job/cron/entry.ts'
import { removeCron } from '../../../src/operations/cron/cron.ts'
import { type Missed, tellMissed } from '../../../src/operations/cron/missed.ts'
import { stoppedCronWarnings } from '../../../src/operations/cron/stopped.ts'
import { fireDue, releaseQueued, returnFromAhead } from '../../../src/operations/cron/ticks.ts'
import { push } from '../../../src/operations/enqueue/push.ts'
import { NOW } from '../../ledger/harness.ts'
import { ledgerOfTest } from '../../ledger/sqlite/harness.ts'
import { onToldBroker, type ToldStage } from '../job-messages/told-broker.ts'

const harness = ledgerOfTest()
let stage: ToldStage
beforeEach(() => {
  stage = onToldBroker(harness, {})
})

/** One pass: fires what is due, and tells which times were missed. */
async function fire(): Promise<number> {
  const untold: Missed[] = []
  const done = await fireDue(stage.deps, untold)
  await tellMissed(stage.deps, untold)
  return done
}

function register(name: string, given: Partial<CronDefinition> = {}, queue = 'q') {
  const definition: CronDefinition = {
    name,
    expression: '* * * * *',
    timezone: 'UTC',
    overlap: 'skip',
    isEnabled: true,
    description: null,
    template: { type: 'a', args: [], options: { queue } },
    ...given,
  }
  const first = { nextRunAt: NOW - 1, createdAt: NOW, limit: 2_000 }
  return harness.ledger.cron.register(definition, first)
}

it('a cron job whose time zone is no longer known runs a last time and does not stop others', async () => {
  await Promise.all([register('lost', { timezone: 'Mars/Phobos' }), register('well')])
  expect(await fire()).toBe(2)
  expect(harness.ledger.known.counts('q').available).toBe(2)
  expect((await harness.ledger.read.cron.find('lost'))?.nextRunAt).toBeNull()
  expect((await harness.ledger.read.cron.find('well'))?.nextRunAt).toBeGreaterThan(NOW)
})

it('1,200 entries that are due at once share a few commits, and other work goes on', async () => {
  await Promise.all(Array.from({ length: 1_200 }, (_, i) => register(`e${i}`)))
  const exec = vi.spyOn(harness.db, 'exec')
  // On a slow machine, a commit takes no more writes after 50 ms.
  const stopwatch = vi.spyOn(performance, 'now').mockReturnValue(0)
  let turns = 0
  const count = () => {
    turns += 1
    others = setImmediate(count)
  }
  let others = setImmediate(count)
  while ((await fire()) > 0);
  clearImmediate(others)
  expect(harness.ledger.known.counts('q').available).toBe(1_200)
  const commits = exec.mock.calls.filter(([sql]) => sql === 'COMMIT').length
  stopwatch.mockRestore()
  // One per page, and lazy writes.
  expect(commits).toBeLessThanOrEqual(8)
  expect(turns).toBeGreaterThanOrEqual(20)
})

it('a pass fires all due entries before it counts which times they missed', async () => {
  await Promise.all(Array.from({ length: 60 }, (_, i) => register(`e${i}`)))
  harness.db.exec(`UPDATE cron_jobs SET next_run_at = ${NOW - 86_400_000}`)
  const untold: Missed[] = []
  expect(await fireDue(stage.deps, untold)).toBe(60)
  expect(new Set(stage.events.map(({ type }) => type))).toEqual(
    new Set(['job.enqueued', 'cron.triggered']),
  )
  expect(untold).toHaveLength(60)
})

it('a queued tick is released although 50 others before it are for a paused queue', async () => {
  const { pauses } = harness.ledger
  const names = Array.from({ length: 51 }, (_, i) => `e${i + 10}`)
  await Promise.all(
    names.map((name) =>
      register(name, { overlap: 'enqueue' }, name === names.at(-1) ? 'goes' : 'stands'),
    ),
  )
  harness.db.exec(`UPDATE cron_jobs SET queued = '[${NOW - 1}]'`)
  await pauses.pause('stands', NOW)
  expect(await harness.ledger.read.cron.releasable('', 60)).toHaveLength(51)
  await releaseQueued(stage.deps)
  expect(harness.ledger.known.counts('goes').available).toBe(1)
  expect(harness.ledger.known.counts('stands').available).toBe(0)
  expect(await harness.ledger.read.cron.releasable('', 60)).toHaveLength(50)
})

it('a cron job queues up to 100 ticks, and skips the next one as queue_full', async () => {
  await register('often', { overlap: 'enqueue' })
  const waiting = (count: number) => {
    const queued = JSON.stringify(Array.from({ length: count }, (_, i) => NOW - 1_000 + i))
    harness.db.exec(`UPDATE cron_jobs SET queued = '${queued}', next_run_at = ${NOW - 1}`)
  }
  waiting(99)
  await fire()
  expect(stage.events).toEqual([])
  waiting(100)
  await fire()
  expect(stage.events).toMatchObject([{ type: 'cron.skipped', reason: 'queue_full' }])
})

it('fireDue emits job.enqueued before job.cancelled when a PUSH replaces the job in the same commit', async () => {
  const unique = { keys: ['type'], on_conflict: 'replace' as const }
  const job = { type: 'a', args: [], options: { queue: 'q', unique } }
  Object.assign(stage.deps.broker, {
    publish: async () => 'confirmed',
    broadcast: async () => 'confirmed',
  })
  await register('one', { template: job })
  const fired = fire()
  await Promise.all([fired, push(stage.deps, job, { requestId: 'req_1' })])
  const [triggered] = stage.events.filter(({ type }) => type === 'cron.triggered')
  const id = triggered && 'job' in triggered ? triggered.job.id : ''
  const own = stage.events.filter((event) => 'job' in event && event.job.id === id)
  const types = own.map(({ type }) => type).filter((type) => type.startsWith('job.'))
  expect(types).toEqual(['job.enqueued', 'job.cancelled'])
})

it('returnFromAhead resets all of 120 cron jobs whose next run is far ahead', async () => {
  const names = Array.from({ length: 120 }, (_, i) => `e${i}`)
  await Promise.all(names.map((name) => register(name)))
  const wall = stage.deps.clock.wall()
  harness.db.exec(`UPDATE cron_jobs SET next_run_at = ${wall + 48 * 3_600_000}`)
  await returnFromAhead(stage.deps)
  const { cron } = harness.ledger.read
  const entries = await Promise.all(names.map((name) => cron.find(name)))
  const times = entries.map((entry) => entry?.nextRunAt ?? 0)
  expect(Math.max(...times)).toBeLessThan(wall + 3 * 3_600_000)
})

it('tells of no missed times of an entry that was removed while it fired', async () => {
  await register('gone')
  harness.db.exec(`UPDATE cron_jobs SET next_run_at = ${NOW - 300_000}`)
  const untold: Missed[] = []
  const fired = fireDue(stage.deps, untold)
  await Promise.all([harness.ledger.cron.remove('gone', NOW - 400_000), fired])
  expect(untold).toEqual([])
})

it('fireDue asks for no further pass when all due cron jobs wait for an unconfirmed PUSH', async () => {
  const template = { type: 'a', args: [], options: { queue: 'q', unique: { key: [] } } }
  const given = { template, overlap: 'allow' } as const
  await register('first', given)
  expect(await fire()).toBe(1)
  const { id } = harness.db.prepare('SELECT id FROM jobs').get() as { id: string }
  stage.deps.transient.unconfirmed.set(id, Promise.resolve())
  await Promise.all(Array.from({ length: 50 }, (_, i) => register(`e${i}`, given)))
  expect(await fire()).toBe(0)
  stage.deps.transient.unconfirmed.clear()
  expect(await fire()).toBe(50)
})

it('an entry is removed only when its due tick is decided', async () => {
  const template = { type: 'a', args: [], options: { queue: 'q', unique: { key: [] } } }
  const given = { template, overlap: 'allow' } as const
  await register('first', given)
  await fire()
  const { id } = harness.db.prepare('SELECT id FROM jobs').get() as { id: string }
  stage.deps.transient.unconfirmed.set(id, Promise.resolve())
  await register('second', given)
  const remove = () => removeCron(stage.deps, 'second', { requestId: 'req_1' })
  await expect(remove()).rejects.toMatchObject({ status: 503, details: { reason: 'cron_job_due' } })
  expect((await harness.ledger.read.cron.find('second'))?.nextRunAt).toBe(NOW - 1)
  stage.deps.transient.unconfirmed.clear()
  await remove()
  expect(await harness.ledger.read.cron.find('second')).toBeNull()
  expect(stage.events.at(-1)).toMatchObject({ reason: 'duplicate', existingJobId: id })
})

it('an entry that is removed long after its time makes one job, and tells of the others', async () => {
  await register('late')
  harness.db.exec(`UPDATE cron_jobs SET next_run_at = ${NOW - 300_000}`)
  await removeCron(stage.deps, 'late', { requestId: 'req_1' })
  expect(harness.ledger.known.counts('q').available).toBe(1)
  expect(stage.events.at(-1)).toMatchObject({ type: 'cron.skipped', reason: 'missed', count: 5 })
})

it('a queued tick is skipped as invalid_job when its job is no longer valid', async () => {
  await register('strange', { overlap: 'enqueue' }, 'ojs.reserved')
  harness.db.exec(`UPDATE cron_jobs SET queued = '[${NOW - 1}]'`)
  await releaseQueued(stage.deps)
  expect((await harness.ledger.read.cron.find('strange'))?.queued).toEqual([])
  expect(stage.events).toMatchObject([{ type: 'cron.skipped', reason: 'invalid_job' }])
})

it('fireDue emits job.cancelled for the job that a cron job replaces by its unique policy', async () => {
  const unique = { key: [], on_conflict: 'replace' }
  const template = { type: 'a', args: [], options: { queue: 'q', unique } }
  await register('first', { template, overlap: 'allow' })
  await fire()
  await register('second', { template, overlap: 'allow' })
  await fire()
  expect(harness.ledger.known.counts('q')).toMatchObject({ available: 1, cancelled: 1 })
  expect(stage.events.map(({ type }) => type)).toContain('job.cancelled')
})

it('returnFromAhead keeps a next run that is the first scheduled time after three hours', async () => {
  const warn = vi.spyOn(stage.deps.logger, 'warn')
  await Promise.all([
    register('hourly', { expression: '0 * * * *' }),
    register('yearly', { expression: '0 9 1 1 *' }),
  ])
  const { cron } = harness.ledger.read
  const HOUR_MS = 3_600_000
  const hourly = Math.ceil((NOW + 3 * HOUR_MS) / HOUR_MS) * HOUR_MS
  const yearly = Date.UTC(2024, 0, 1, 9)
  const plant = (name: string, at: number) =>
    harness.db.exec(`UPDATE cron_jobs SET next_run_at = ${at} WHERE name = '${name}'`)
  plant('hourly', hourly)
  plant('yearly', yearly)
  await returnFromAhead(stage.deps)
  expect((await cron.find('hourly'))?.nextRunAt).toBe(hourly)
  expect((await cron.find('yearly'))?.nextRunAt).toBe(yearly)
  expect(warn).not.toHaveBeenCalled()
  plant('hourly', hourly + HOUR_MS)
  await returnFromAhead(stage.deps)
  expect((await cron.find('hourly'))?.nextRunAt).toBe(hourly - 3 * HOUR_MS)
  expect(warn).toHaveBeenCalledOnce()
})

it('returnFromAhead yields to the event loop while it checks 120 rightly distant next runs', async () => {
  const expression = '0 9 1 1 *'
  await Promise.all(Array.from({ length: 120 }, (_, i) => register(`e${i}`, { expression })))
  harness.db.exec(`UPDATE cron_jobs SET next_run_at = ${Date.UTC(2024, 0, 1, 9)}`)
  let turns = 0
  const count = () => {
    turns += 1
    others = setImmediate(count)
  }
  let others = setImmediate(count)
  await returnFromAhead(stage.deps)
  clearImmediate(others)
  expect(turns).toBeGreaterThanOrEqual(2)
})

describe('runs that were missed since the last one', () => {
  const SECONDLY = { expression: '* * * * * *', overlap: 'allow' } as const
  const plant = (at: number) => harness.db.exec(`UPDATE cron_jobs SET next_run_at = ${at}`)
  const skipped = () => stage.events.filter(({ type }) => type === 'cron.skipped')

  it.each([
    [1_000, 1],
    [5_000, 5],
    [100_000, 100],
  ])('are reported in one cron.skipped event: after %i ms, %i of them', async (ms, count) => {
    await register('often', SECONDLY)
    plant(NOW - ms)
    await fire()
    expect(harness.ledger.known.counts('q').available).toBe(1)
    const scheduledAt = NOW - ms + 1_000
    expect(skipped()).toEqual([
      expect.objectContaining({ reason: 'missed', scheduledAt, count, hasMore: false }),
    ])
    expect((await harness.ledger.read.cron.find('often'))?.nextRunAt).toBe(NOW + 1_000)
  })

  it('are counted up to 100, even after a year of seconds', async () => {
    await register('often', SECONDLY)
    plant(NOW - 365 * 86_400_000)
    await fire()
    expect(skipped()).toMatchObject([{ reason: 'missed', count: 100, hasMore: true }])
    expect((await harness.ledger.read.cron.find('often'))?.nextRunAt).toBe(NOW + 1_000)
    await fire()
    expect(skipped()).toHaveLength(1)
  })

  it('are not reported when the next run is still ahead', async () => {
    await register('often', SECONDLY)
    plant(NOW - 999)
    stage.deps.clock.wall = () => NOW - 1
    await fire()
    expect(skipped()).toEqual([])
    expect((await harness.ledger.read.cron.find('often'))?.nextRunAt).toBe(NOW)
  })

  it('are reported after the skipped run before them, in a paused queue too', async () => {
    await register('often', SECONDLY)
    plant(NOW - 2_000)
    await harness.ledger.pauses.pause('q', NOW)
    await fire()
    expect(skipped()).toMatchObject([{ reason: 'queue_paused' }, { reason: 'missed', count: 2 }])
  })

  it('are reported after a run that daylight saving time skipped', async () => {
    const at = Date.UTC(2023, 2, 12, 8)
    const given = { expression: '30 2 * * *', timezone: 'America/New_York' }
    await register('nightly', given)
    plant(at - 86_400_000)
    stage.deps.clock.wall = () => at + 2 * 86_400_000
    await fire()
    expect(skipped()).toMatchObject([{ reason: 'dst_skip' }, { reason: 'missed', count: 2 }])
  })
})

describe('health warns of an entry that makes no job', () => {
  const UNREADABLE = { type: 'a', args: [], options: { queue: 'ojs.reserved' } }
  const due = () => harness.db.exec(`UPDATE cron_jobs SET next_run_at = ${NOW - 1}`)
  const warned = async () => (await stoppedCronWarnings(stage.deps)).map(({ code }) => code)

  async function stopped(): Promise<void> {
    await register('one', { template: UNREADABLE })
    await fire()
    expect(await warned()).toEqual(['cron_invalid'])
  }

  it('until it makes one again', async () => {
    await stopped()
    const template = JSON.stringify({ ...UNREADABLE, options: { queue: 'q' } })
    harness.db.prepare('UPDATE cron_jobs SET template = ?').run(template)
    due()
    await fire()
    expect(harness.ledger.known.counts('q').available).toBe(1)
    expect(await warned()).toEqual([])
  })

  it.each([
    ['is disabled', () => harness.db.exec('UPDATE cron_jobs SET enabled = 0')],
    ['is removed', () => harness.db.exec('DELETE FROM cron_jobs')],
    [
      'is another one of its name',
      async () => {
        await removeCron(stage.deps, 'one', { requestId: 'req_1' })
        await register('one')
      },
    ],
  ])('unless it %s', async (_what, change) => {
    await stopped()
    await change()
    expect(await warned()).toEqual([])
  })

  it.each([
    ['enqueued before', NOW, ['cron_blocked']],
    ['enqueued after', NOW - 1, []],
  ])('when a job %s the queue lost messages is not over', async (_when, before, codes) => {
    Object.assign(stage.deps.broker, { driftedBefore: () => before })
    await register('one')
    await fire()
    due()
    await fire()
    expect(await warned()).toEqual(codes)
  })
})
