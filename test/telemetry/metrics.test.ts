import { METHODS } from 'node:http'
import { createRequire } from 'node:module'
import { describe, expect, test, vi } from 'vitest'
import type { BrokerGauges } from '../../src/broker/observer.ts'
import type { JobState } from '../../src/job/job.ts'
import type { JobEvent } from '../../src/telemetry/events.ts'
import { createMetrics, type MetricSources } from '../../src/telemetry/metrics.ts'
import { jobRow } from '../http/job-rows.ts'

/** The module object that prom-client, which is CommonJS, uses. */
const performanceHooks: typeof import('node:perf_hooks') = createRequire(import.meta.url)(
  'node:perf_hooks',
)

const NO_BROKER: BrokerGauges = {
  connectionsActive: 0,
  channelsActive: 0,
  blocked: false,
  confirmsPending: 0,
  consumers: [],
  queues: [],
}
const NO_JOBS: Record<JobState, number> = {
  available: 0,
  scheduled: 0,
  pending: 0,
  active: 0,
  retryable: 0,
  completed: 0,
  cancelled: 0,
  discarded: 0,
}
const EMPTY_LEDGER: MetricSources['ledger'] = {
  queues: () => [],
  search: { oldest: async () => new Map() },
  counts: () => NO_JOBS,
  deadLetterCount: () => 0,
  held: () => 0,
  pauses: { since: () => null },
  fault: () => null,
  owedMessages: async () => 0,
}

const WELL: MetricSources['gateway'] = {
  version: '1.2.3',
  sharesLedger: false,
  isHealthy: () => true,
  warnings: async () => [],
}

function open(sources: Partial<MetricSources> = {}) {
  const metrics = createMetrics()
  const page = metrics.exposition({
    broker: () => NO_BROKER,
    eventsPending: () => 0,
    ledger: EMPTY_LEDGER,
    workers: () => ({ active: 0, busy: 0 }),
    clock: { now: () => 10_000, wall: () => 20_000 },
    relay: { stuck: () => new Map() },
    gateway: WELL,
    ...sources,
  })
  /** The values of all samples whose name starts with `prefix`, by `name{labels}`. */
  const read = async (prefix: string): Promise<Record<string, number>> => {
    const lines = (await page.text()).split('\n').filter((line) => line.startsWith(prefix))
    return Object.fromEntries(
      lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.split(' ').at(-1))]),
    )
  }
  return { ...metrics, page, read }
}

const LABELS = '{queue="email",type="email.send"}'

describe('the metrics of jobs', () => {
  const failure = { code: 'boom', type: 'Boom', message: 'it went off', retryable: true }
  const moved: [name: string, event: JobEvent, counters: string[]][] = [
    ['job.enqueued', { type: 'job.enqueued', job: jobRow() }, ['enqueued']],
    ['job.enqueued, promoted', { type: 'job.enqueued', job: jobRow(), promoted: true }, []],
    ['job.scheduled', { type: 'job.scheduled', job: jobRow({ dueAt: 9_000 }) }, ['enqueued']],
    [
      'job.scheduled, by an activation',
      { type: 'job.scheduled', job: jobRow({ dueAt: 9_000, activatedAt: 5_000 }) },
      [],
    ],
    ['job.staged', { type: 'job.staged', job: jobRow() }, ['enqueued']],
    ['job.completed', { type: 'job.completed', job: jobRow() }, ['completed']],
    [
      'job.cancelled',
      { type: 'job.cancelled', job: jobRow(), previousState: 'active' },
      ['cancelled'],
    ],
    ['job.failed', { type: 'job.failed', job: jobRow(), attempt: 1, failure }, ['attempts_failed']],
    ['job.retrying', { type: 'job.retrying', job: jobRow(), failure }, ['retried']],
    ['job.discarded', { type: 'job.discarded', job: jobRow() }, ['failed', 'discarded']],
    ['job.expired', { type: 'job.expired', job: jobRow() }, ['expired', 'discarded']],
    [
      'job.heartbeat',
      { type: 'job.heartbeat', job: { ...jobRow(), leaseExpiresAt: 1 }, workerId: 'w' },
      [],
    ],
    ['dead_letter.added', { type: 'dead_letter.added', job: jobRow() }, []],
    ['dead_letter.retried', { type: 'dead_letter.retried', job: jobRow() }, []],
    ['dead_letter.deleted', { type: 'dead_letter.deleted', job: jobRow() }, []],
  ]

  test.each(moved)('increment only their counters by one at %s', async (_, event, names) => {
    const { onJobEvent, read } = open()
    const counted = (by: number) =>
      Object.fromEntries(names.map((name) => [`ojs_job_${name}_total${LABELS}`, by]))
    onJobEvent(event)
    expect(await read('ojs_job_')).toEqual(counted(1))
    for (let i = 0; i < 3; i++) onJobEvent(event)
    expect(await read('ojs_job_')).toEqual(counted(4))
  })

  test('measure the time in the queue at job.started', async () => {
    const { onJobEvent, read } = open()
    const startedAfter = (ms: number) =>
      onJobEvent({ type: 'job.started', job: jobRow({ startedAt: 2_000 + ms }) })
    startedAfter(250)
    startedAfter(7_000)
    const samples = await read('ojs_job_')
    expect(samples[`ojs_job_queue_time_seconds_count${LABELS}`]).toBe(2)
    expect(samples[`ojs_job_queue_time_seconds_sum${LABELS}`]).toBeCloseTo(7.25)
    const bucket = (le: string) =>
      samples[`ojs_job_queue_time_seconds_bucket{le="${le}",queue="email",type="email.send"}`]
    expect(['0.1', '0.5', '5', '10', '3600', '+Inf'].map(bucket)).toEqual([0, 1, 1, 2, 2, 2])
  })

  test('measure no time that is unknown', async () => {
    const { onJobEvent, read } = open()
    onJobEvent({ type: 'job.started', job: jobRow({ startedAt: null }) })
    onJobEvent({ type: 'job.discarded', job: jobRow({ startedAt: null, discardedAt: 2_000 }) })
    expect(await read('ojs_job_queue_time_seconds')).toEqual({})
    expect(await read('ojs_job_duration_seconds')).toEqual({})
  })

  const ends: [state: string, event: JobEvent][] = [
    ['completed', { type: 'job.completed', job: jobRow({ startedAt: 5_000, completedAt: 5_040 }) }],
    ['discarded', { type: 'job.discarded', job: jobRow({ startedAt: 5_000, discardedAt: 5_040 }) }],
    [
      'cancelled',
      {
        type: 'job.cancelled',
        job: jobRow({ startedAt: 5_000, cancelledAt: 5_040 }),
        previousState: 'active',
      },
    ],
  ]

  test.each(ends)('measure the duration of a job that ends as %s', async (state, event) => {
    const { onJobEvent, read } = open()
    onJobEvent(event)
    const samples = await read('ojs_job_duration_seconds')
    const labels = `queue="email",type="email.send",state="${state}"`
    expect(samples[`ojs_job_duration_seconds_count{${labels}}`]).toBe(1)
    expect(samples[`ojs_job_duration_seconds_sum{${labels}}`]).toBeCloseTo(0.04)
    const bucket = (le: string) => samples[`ojs_job_duration_seconds_bucket{le="${le}",${labels}}`]
    expect(['0.025', '0.05', '300'].map(bucket)).toEqual([0, 1, 1])
    const buckets = Object.keys(samples).filter((name) => name.includes('_bucket'))
    expect(buckets).toHaveLength(16)
  })

  test('measure no duration for a job that is cancelled while it waits for a retry', async () => {
    const { onJobEvent, read } = open()
    const job = jobRow({ startedAt: 1_000, cancelledAt: 9_000 })
    onJobEvent({ type: 'job.cancelled', job, previousState: 'retryable' })
    expect(await read('ojs_job_duration_seconds')).toEqual({})
  })

  test('measure 0 if the clock was set back', async () => {
    const { onJobEvent, read } = open()
    onJobEvent({ type: 'job.started', job: jobRow({ enqueuedAt: 2_000, startedAt: 1_000 }) })
    expect(
      (await read('ojs_job_queue_time_seconds_sum'))[`ojs_job_queue_time_seconds_sum${LABELS}`],
    ).toBe(0)
  })

  test('count ticks of cron entries by outcome', async () => {
    const { onJobEvent, read } = open()
    const cron = { name: 'n', expression: '* * * * *', jobType: 't', queue: 'q' }
    const at = { cron, scheduledAt: 0 }
    onJobEvent({ type: 'cron.triggered', ...at, job: jobRow() })
    onJobEvent({ type: 'cron.triggered', ...at, job: jobRow() })
    onJobEvent({ type: 'cron.skipped', ...at, reason: 'overlap' })
    const missed = { reason: 'missed', count: 7, hasMore: false } as const
    onJobEvent({ type: 'cron.skipped', ...at, ...missed })
    expect(await read('ojs_cron')).toEqual({
      'ojs_cron_ticks_total{outcome="triggered"}': 2,
      'ojs_cron_ticks_total{outcome="overlap"}': 1,
      'ojs_cron_ticks_total{outcome="missed"}': 7,
    })
  })

  test('count reports of progress, by queue and type', async () => {
    const { onJobEvent, read } = open()
    const reported = { type: 'job.reported', queue: 'email', jobType: 'email.send' } as const
    onJobEvent(reported)
    onJobEvent(reported)
    expect(await read('ojs_progress')).toEqual({ [`ojs_progress_updates_total${LABELS}`]: 2 })
  })

  test('count actions on many jobs: their begins, their ends, and what became of the jobs', async () => {
    const { onJobEvent, read } = open()
    onJobEvent({ type: 'bulk.begun', action: 'retry' })
    onJobEvent({ type: 'bulk.begun', action: 'retry' })
    onJobEvent({ type: 'bulk.acted', action: 'retry', done: 5, skipped: 2 })
    onJobEvent({ type: 'bulk.acted', action: 'retry', done: 1, skipped: 0 })
    onJobEvent({ type: 'bulk.stopped', action: 'retry' })
    onJobEvent({ type: 'bulk.retry.completed', bulk: { id: 'o', data: {} } })
    // By ids: no operation.
    onJobEvent({ type: 'bulk.cancel.completed', bulk: { id: null, data: {} } })
    const data = { total: 3, succeeded: 2, failed: 1, atomicity: 'partial' }
    onJobEvent({ type: 'bulk.enqueue.completed', bulk: { id: null, data } })
    const counts = Object.entries(await read('ojs_bulk')).filter(([, value]) => value > 0)
    expect(Object.fromEntries(counts)).toEqual({
      'ojs_bulk_operations_started_total{operation="retry"}': 2,
      'ojs_bulk_operations_ended_total{operation="retry",outcome="stopped"}': 1,
      'ojs_bulk_operations_ended_total{operation="retry",outcome="completed"}': 1,
      'ojs_bulk_items_total{operation="retry",status="retried"}': 6,
      'ojs_bulk_items_total{operation="retry",status="skipped"}': 2,
      'ojs_bulk_items_total{operation="enqueue",status="accepted"}': 2,
      'ojs_bulk_items_total{operation="enqueue",status="failed"}': 1,
    })
  })

  test('count malformed messages for the first 200 queues and other', async () => {
    const { onJobEvent, read } = open()
    onJobEvent({ type: 'message.malformed', queue: 'email', id: '', error: new Error() })
    expect(await read('ojs_token')).toEqual({ 'ojs_token_malformed_total{queue="email"}': 1 })
    for (let i = 0; i < 300; i++)
      onJobEvent({ type: 'message.malformed', queue: `q${i}`, id: '', error: new Error() })
    const samples = await read('ojs_token')
    expect(Object.keys(samples)).toHaveLength(201)
    expect(samples['ojs_token_malformed_total{queue="other"}']).toBe(101)
  })
})

describe('labels of metrics', () => {
  test('keep the first 200 queues, and count all others as other', async () => {
    const { onJobEvent, read } = open()
    const push = (queue: string) => onJobEvent({ type: 'job.enqueued', job: jobRow({ queue }) })
    for (let i = 0; i < 250; i++) push(`q${i}`)
    for (let i = 0; i < 250; i++) push(`q${i}`)
    const samples = await read('ojs_job_enqueued_total')
    expect(Object.keys(samples)).toHaveLength(201)
    const of = (queue: string) =>
      samples[`ojs_job_enqueued_total{queue="${queue}",type="email.send"}`]
    expect([of('q0'), of('q199'), of('q200'), of('other')]).toEqual([2, 2, undefined, 100])
  })

  test('keep the first 200 job types, and count all others as other', async () => {
    const { onJobEvent, read } = open()
    for (let i = 0; i < 300; i++)
      onJobEvent({ type: 'job.enqueued', job: jobRow({ type: `t${i}` }) })
    const samples = await read('ojs_job_enqueued_total')
    expect(Object.keys(samples)).toHaveLength(201)
    expect(samples['ojs_job_enqueued_total{queue="email",type="other"}']).toBe(100)
  })

  test('keep the first 1000 pairs of queue and type, and count all others as other', async () => {
    const { onJobEvent, read } = open()
    for (let q = 0; q < 150; q++) {
      for (let t = 0; t < 150; t++) {
        onJobEvent({ type: 'job.enqueued', job: jobRow({ queue: `q${q}`, type: `t${t}` }) })
      }
    }
    const samples = await read('ojs_job_enqueued_total')
    expect(Object.keys(samples)).toHaveLength(1_001)
    expect(Object.values(samples).reduce((sum, value) => sum + value)).toBe(150 * 150)
    expect(samples['ojs_job_enqueued_total{queue="other",type="other"}']).toBe(150 * 150 - 1_000)
  })

  test('accept and escape names that are special to JavaScript or Prometheus', async () => {
    const { onJobEvent, read } = open()
    for (const queue of ['__proto__', 'constructor', 'a"b\\c\nd']) {
      onJobEvent({ type: 'job.enqueued', job: jobRow({ queue }) })
    }
    expect(await read('ojs_job_enqueued_total')).toEqual({
      'ojs_job_enqueued_total{queue="__proto__",type="email.send"}': 1,
      'ojs_job_enqueued_total{queue="constructor",type="email.send"}': 1,
      'ojs_job_enqueued_total{queue="a\\"b\\\\c\\nd",type="email.send"}': 1,
    })
  })
})

describe('gauges of ledger and workers', () => {
  test('read the depth of queues from the ledger at every scrape', async () => {
    let active = 3
    const { read } = open({
      ledger: {
        ...EMPTY_LEDGER,
        queues: () => [{ name: 'a' }, { name: 'b' }],
        counts: (queue) => ({ ...NO_JOBS, available: queue === 'a' ? 7 : 0, active }),
      },
    })
    const first = await read('ojs_queue_depth')
    expect(first['ojs_queue_depth{queue="a",state="available"}']).toBe(7)
    expect(first['ojs_queue_depth{queue="b",state="available"}']).toBe(0)
    expect(first['ojs_queue_depth{queue="b",state="active"}']).toBe(3)
    expect(Object.keys(first)).toHaveLength(16)
    active = 0
    expect((await read('ojs_queue_depth'))['ojs_queue_depth{queue="b",state="active"}']).toBe(0)
  })

  test('read dead letters by queue, and active and busy workers', async () => {
    let depth = 4
    const { read } = open({
      ledger: {
        ...EMPTY_LEDGER,
        queues: () => [{ name: 'a' }, { name: 'b' }],
        deadLetterCount: (queue) => (queue === 'a' ? depth : 0),
      },
      workers: () => ({ active: 3, busy: 2 }),
    })
    expect(await read('ojs_dead_letter_depth')).toEqual({
      'ojs_dead_letter_depth{queue="a"}': 4,
      'ojs_dead_letter_depth{queue="b"}': 0,
    })
    expect(await read('ojs_workers_')).toEqual({ ojs_workers_active: 3, ojs_workers_busy: 2 })
    depth = 0
    expect((await read('ojs_dead_letter'))['ojs_dead_letter_depth{queue="a"}']).toBe(0)
  })

  test('show which queues are paused', async () => {
    let since: number | null = 7
    const { read } = open({
      ledger: {
        ...EMPTY_LEDGER,
        queues: () => [{ name: 'a' }, { name: 'b' }],
        pauses: { since: (queue) => (queue === 'a' ? since : null) },
      },
    })
    const paused = () => read('ojs_queue_paused')
    expect(await paused()).toEqual({
      'ojs_queue_paused{queue="a"}': 1,
      'ojs_queue_paused{queue="b"}': 0,
    })
    since = null
    expect((await paused())['ojs_queue_paused{queue="a"}']).toBe(0)
  })

  test('sum up the queues beyond 200', async () => {
    const { read } = open({
      ledger: {
        ...EMPTY_LEDGER,
        queues: () => Array.from({ length: 250 }, (_, i) => ({ name: `q${i}` })),
        counts: () => ({ ...NO_JOBS, available: 2 }),
        deadLetterCount: () => 3,
      },
    })
    const other = 'ojs_dead_letter_depth{queue="other"}'
    expect(await read(other)).toEqual({ [other]: 150 })
    expect(
      (await read('ojs_queue_depth{queue="other"'))[
        'ojs_queue_depth{queue="other",state="available"}'
      ],
    ).toBe(100)
  })
})

describe('metrics of AMQP (seed 002 §12.1)', () => {
  test('increment only the counters of each call of the observer, by the right amount', async () => {
    const { observer, read } = open()
    const idle = await read('ojs_amqp_')
    const moved = async (act: () => void) => {
      const before = await read('ojs_amqp_')
      act()
      const after = await read('ojs_amqp_')
      return Object.fromEntries(
        Object.entries(after)
          .map(([name, value]) => [name, value - (before[name] ?? 0)] as const)
          .filter(([name, by]) => by !== 0 && !name.includes('_bucket')),
      )
    }
    // Present with 0 from the start, because Prometheus cannot see an increase in a sample that is new.
    expect(idle).toMatchObject({
      ojs_amqp_messages_returned_total: 0,
      'ojs_amqp_reconnections_total{connection="publish"}': 0,
      'ojs_amqp_reconnections_total{connection="consume"}': 0,
    })
    const q = '{queue="q"}'
    expect(await moved(() => observer.published('q'))).toEqual({
      [`ojs_amqp_messages_published_total${q}`]: 1,
    })
    expect(await moved(() => observer.confirmed('q', 0.002))).toEqual({
      ojs_amqp_publish_confirm_latency_seconds_sum: 0.002,
      ojs_amqp_publish_confirm_latency_seconds_count: 1,
    })
    expect(await moved(() => observer.publishNacked('q'))).toEqual({
      [`ojs_amqp_publish_nacked_total${q}`]: 1,
    })
    expect(await moved(() => observer.publishUnknown('q'))).toEqual({
      [`ojs_amqp_confirm_timeouts_total${q}`]: 1,
    })
    expect(await moved(() => observer.returned('q'))).toEqual({
      ojs_amqp_messages_returned_total: 1,
    })
    expect(await moved(() => observer.consumed('q', false))).toEqual({
      [`ojs_amqp_messages_consumed_total${q}`]: 1,
    })
    expect(await moved(() => observer.consumed('q', true))).toEqual({
      [`ojs_amqp_messages_consumed_total${q}`]: 1,
      [`ojs_amqp_messages_redelivered_total${q}`]: 1,
    })
    expect(await moved(() => observer.acked('q'))).toEqual({
      [`ojs_amqp_messages_acked_total${q}`]: 1,
    })
    expect(await moved(() => observer.deadLettered('q'))).toEqual({
      [`ojs_amqp_messages_nacked_total${q}`]: 1,
      [`ojs_amqp_messages_dead_lettered_total${q}`]: 1,
    })
    expect(await moved(() => observer.givenBack('q', 32))).toEqual({
      [`ojs_amqp_messages_nacked_total${q}`]: 32,
    })
    expect(await moved(() => observer.lost('q', 5))).toEqual({
      [`ojs_amqp_deliveries_lost_total${q}`]: 5,
    })
    expect(await moved(() => observer.consumerCancelled('q'))).toEqual({
      [`ojs_amqp_consumer_cancels_total${q}`]: 1,
    })
    expect(await moved(() => observer.reconnecting('consume', 3))).toEqual({
      'ojs_amqp_reconnections_total{connection="consume"}': 1,
    })
    expect(await moved(() => observer.reconnected('consume'))).toEqual({})
    expect(await moved(() => observer.channelError('publish', 404))).toEqual({
      'ojs_amqp_channel_errors_total{connection="publish",code="404"}': 1,
    })
    expect(await moved(() => observer.declareConflict('ojs.queue.q'))).toEqual({
      ojs_amqp_declare_conflicts_total: 1,
    })
  })

  test('ask broker and workers once per scrape', async () => {
    const broker = vi.fn(() => NO_BROKER)
    const workers = vi.fn(() => ({ active: 0, busy: 0 }))
    const { page } = open({ broker, workers })
    for (const scrape of [1, 2, 3]) {
      await page.text()
      expect([broker, workers].map(({ mock }) => mock.calls.length)).toEqual([scrape, scrape])
    }
  })

  test('read their gauges from the broker layer', async () => {
    let broker: BrokerGauges = {
      connectionsActive: 3,
      channelsActive: 9,
      blocked: true,
      confirmsPending: 4,
      consumers: [
        { queue: 'a', consumer: 'c1', unacked: 5 },
        { queue: 'a', consumer: 'c2', unacked: 6 },
      ],
      queues: [{ queue: 'a', buffered: 2, waiters: 1, utilization: 0.25 }],
    }
    const { page } = open({ broker: () => broker })
    const text = await page.text()
    for (const sample of [
      'ojs_amqp_connections_active 3',
      'ojs_amqp_channels_active 9',
      'ojs_amqp_blocked 1',
      'ojs_amqp_confirms_pending 4',
      'ojs_amqp_messages_unacked{queue="a",consumer="a-1"} 5',
      'ojs_amqp_messages_unacked{queue="a",consumer="a-2"} 6',
      'ojs_amqp_consumer_utilization{queue="a"} 0.25',
      'ojs_amqp_buffered{queue="a"} 2',
      'ojs_fetch_waiters{queue="a"} 1',
    ]) {
      expect(text).toContain(`\n${sample}\n`)
    }
    broker = NO_BROKER
    const idle = await page.text()
    expect(idle).toContain('\nojs_amqp_connections_active 0\n')
    expect(idle).not.toContain('consumer="c1"')
    // A queue that is gone must not keep its last value.
    expect(idle).not.toContain('ojs_amqp_buffered{')
  })

  test('add up the queues that share the label other, and take their highest utilization', async () => {
    const row = (queue: string, utilization: number) => ({
      queue,
      buffered: 2,
      waiters: 1,
      utilization,
    })
    const known = Array.from({ length: 200 }, (_, i) => row(`q${i}`, 0.1))
    const queues = [...known, row('x', 0.25), row('y', 0.75), row('z', 0.5)]
    const consumers = queues.map(({ queue }) => ({ queue, consumer: `of ${queue}`, unacked: 5 }))
    const { read } = open({ broker: () => ({ ...NO_BROKER, queues, consumers }) })
    for (const scrape of [1, 2]) {
      expect(await read('ojs_amqp_buffered{queue="other"}'), `scrape ${scrape}`).toEqual({
        'ojs_amqp_buffered{queue="other"}': 6,
      })
      expect(await read('ojs_fetch_waiters{queue="other"}')).toEqual({
        'ojs_fetch_waiters{queue="other"}': 3,
      })
      expect(await read('ojs_amqp_consumer_utilization{queue="other"}')).toEqual({
        'ojs_amqp_consumer_utilization{queue="other"}': 0.75,
      })
      expect(await read('ojs_amqp_messages_unacked{queue="other"')).toEqual({
        'ojs_amqp_messages_unacked{queue="other",consumer="other-1"}': 15,
      })
    }
  })

  test('include the eleven names of the seed', async () => {
    const text = await open().page.text()
    const types = [...text.matchAll(/^# TYPE (ojs_amqp_\S+) (\w+)$/gm)].map(
      ([, name, type]) => `${name} ${type}`,
    )
    expect(types).toEqual(
      expect.arrayContaining([
        'ojs_amqp_connections_active gauge',
        'ojs_amqp_channels_active gauge',
        'ojs_amqp_messages_published_total counter',
        'ojs_amqp_messages_consumed_total counter',
        'ojs_amqp_messages_acked_total counter',
        'ojs_amqp_messages_nacked_total counter',
        'ojs_amqp_messages_returned_total counter',
        'ojs_amqp_messages_unacked gauge',
        'ojs_amqp_consumer_utilization gauge',
        'ojs_amqp_publish_confirm_latency_seconds histogram',
        'ojs_amqp_reconnections_total counter',
      ]),
    )
  })
})

describe('metrics of HTTP', () => {
  test('have one observation per request, by route, method and class of status', async () => {
    const { page, read } = open()
    page.http.requestDone('/ojs/v1/jobs', 'POST', 201, 0.003)
    page.http.requestDone('/ojs/v1/jobs', 'POST', 200, 0.003)
    page.http.requestDone('/ojs/v1/jobs', 'POST', 413, 0.003)
    page.http.requestDone('/ojs/v1/workers/fetch', 'POST', 0, 20)
    page.http.requestDone('unmatched', 'GET', 404, 0.001)
    page.http.requestDone('/ojs/v1/health', 'GET', 503, 0.001)
    const name = 'ojs_http_request_duration_seconds_count'
    expect(await read(name)).toEqual({
      [`${name}{route="/ojs/v1/jobs",method="POST",status="2xx"}`]: 2,
      [`${name}{route="/ojs/v1/jobs",method="POST",status="4xx"}`]: 1,
      [`${name}{route="/ojs/v1/workers/fetch",method="POST",status="gone"}`]: 1,
      [`${name}{route="unmatched",method="GET",status="4xx"}`]: 1,
      [`${name}{route="/ojs/v1/health",method="GET",status="5xx"}`]: 1,
    })
  })
})

test('uncommon HTTP methods share the label other, so that they make few series', async () => {
  const { page, read } = open()
  for (let route = 0; route < 40; route++) {
    for (const method of METHODS) page.http.requestDone(`/ojs/v1/${route}`, method, 405, 0.01)
  }
  page.http.requestDone('/ojs/v1/jobs', 'POST', 201, 0.02)
  const name = 'ojs_http_request_duration_seconds_count'
  const counted = await read(name)
  expect(counted).toMatchObject({
    [`${name}{route="/ojs/v1/jobs",method="POST",status="2xx"}`]: 1,
    [`${name}{route="/ojs/v1/0",method="other",status="4xx"}`]: METHODS.length - 5,
  })
  expect(Object.keys(counted).length).toBeLessThan(300)
})

test('two gateways in one process have separate job metrics, and both have process metrics', async () => {
  const [one, two] = [open(), open()]
  one.onJobEvent({ type: 'job.enqueued', job: jobRow() })
  expect(await two.read('ojs_job_')).toEqual({})
  expect(await one.page.text()).toMatch(/^process_cpu_seconds_total /m)
  expect(await one.page.text()).toMatch(/^nodejs_eventloop_lag_seconds /m)
  expect(one.page.contentType).toBe('text/plain; version=0.0.4; charset=utf-8')
})

test('createMetrics starts no second monitor of the event loop in the same process', async () => {
  const watched = vi.spyOn(performanceHooks, 'monitorEventLoopDelay')
  await open().page.text()
  watched.mockClear()
  for (let i = 0; i < 3; i++)
    expect(await open().page.text()).toMatch(/^# TYPE nodejs_gc_duration_/m)
  expect(watched).not.toHaveBeenCalled()
  watched.mockRestore()
})

test('every metric that ends in _total has the type counter', async () => {
  const text = await open().page.text()
  expect(text).toMatch(/^# TYPE process_cpu_seconds_total counter$/m)
  expect(text).not.toMatch(/^# TYPE \S+_total gauge$/m)
})

test('control messages are counted as received, malformed, skipped and with a dropped reply', async () => {
  const { control, read } = open()
  control.received('ojs.control.report')
  control.malformed('unknown', 'too_large')
  control.skipped('ojs.control.report', 4)
  control.replyDropped('gone')
  expect(await read('ojs_control_')).toEqual({
    'ojs_control_messages_total{type="ojs.control.report"}': 1,
    'ojs_control_malformed_total{type="unknown",reason="too_large"}': 1,
    'ojs_control_skipped_total{type="ojs.control.report"}': 4,
    'ojs_control_replies_dropped_total{outcome="gone"}': 1,
  })
})

describe('metrics of the gateway itself', () => {
  const gauges = ['ojs_healthy', 'ojs_ledger_writable', 'ojs_ledger_tokens_owed']
  const readAll = async (sources: Partial<MetricSources> = {}) => {
    const { read } = open(sources)
    const all = await Promise.all(gauges.map(read))
    return Object.assign({}, ...all)
  }

  test('show a healthy gateway', async () => {
    expect(await readAll()).toEqual({
      ojs_healthy: 1,
      ojs_ledger_writable: 1,
      ojs_ledger_tokens_owed: 0,
    })
  })

  test('tell its role if other gateways may stand by, and its version', async () => {
    const alone = open()
    expect(await alone.read('ojs_standby')).toEqual({})
    expect(await alone.read('ojs_build_info')).toEqual({ 'ojs_build_info{version="1.2.3"}': 1 })
    const sharing = open({ gateway: { ...WELL, sharesLedger: true } })
    expect(await sharing.read('ojs_standby')).toEqual({ ojs_standby: 0 })
  })

  test('show an unhealthy gateway, an unwritable ledger and owed job messages independently', async () => {
    const gateway = { ...WELL, isHealthy: () => false }
    expect(await readAll({ gateway })).toMatchObject({ ojs_healthy: 0, ojs_ledger_writable: 1 })
    const ledger = { ...EMPTY_LEDGER, fault: () => 'disk full', owedMessages: async () => 7 }
    expect(await readAll({ ledger })).toEqual({
      ojs_healthy: 1,
      ojs_ledger_writable: 0,
      ojs_ledger_tokens_owed: 7,
    })
  })

  test('count at most 10,000 owed job messages', async () => {
    const ledger = {
      ...EMPTY_LEDGER,
      owedMessages: async (atMost: number) => Math.min(atMost, 1_000_000),
    }
    expect(await readAll({ ledger })).toMatchObject({ ojs_ledger_tokens_owed: 10_000 })
  })

  test('show for how long job messages of a queue are stuck, and the longest time of the queues beyond 200', async () => {
    const names = Array.from({ length: 203 }, (_, i) => `q${i}`)
    const stuck = new Map(names.map((name, i) => [name, i === 201 ? 90_500 : i]))
    const { read } = open({ relay: { stuck: () => stuck } })
    const samples = await read('ojs_ledger_tokens_stuck_seconds')
    expect(Object.keys(samples)).toHaveLength(201)
    expect(samples).toMatchObject({
      'ojs_ledger_tokens_stuck_seconds{queue="q7"}': 0.007,
      'ojs_ledger_tokens_stuck_seconds{queue="other"}': 90.5,
    })
    stuck.clear()
    expect(await read('ojs_ledger_tokens_stuck_seconds')).toEqual({})
  })

  test('count the warnings of health by code, and drop those that are over', async () => {
    let codes = ['queue_differs', 'silent_acks', 'queue_differs']
    const gateway = { ...WELL, warnings: async () => codes.map((code) => ({ code })) }
    const { read } = open({ gateway })
    expect(await read('ojs_health_warnings')).toEqual({
      'ojs_health_warnings{code="queue_differs"}': 2,
      'ojs_health_warnings{code="silent_acks"}': 1,
    })
    codes = []
    expect(await read('ojs_health_warnings')).toEqual({})
  })

  test('show the version', async () => {
    expect(await open().read('ojs_build_info')).toEqual({ 'ojs_build_info{version="1.2.3"}': 1 })
  })
})
