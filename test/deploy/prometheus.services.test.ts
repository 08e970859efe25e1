// Evaluates the queries of deploy/grafana and the rules of deploy/prometheus with a real Prometheus, on a
// gateway and a RabbitMQ node that do what the queries ask for.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { connect } from 'amqplib'
import { describe, expect, test } from 'vitest'
import { standbyMetrics } from '../../src/telemetry/standby-metrics.ts'
import { startPrivateNode } from '../support/broker/rabbit.ts'
import { jobsOf } from '../support/gateway/client.ts'
import { Gateway } from '../support/gateway/gateway.ts'
import { eventually } from '../support/gateway/in-process.ts'
import { forAll } from '../support/time/late.ts'
import { DEPLOY, startPrometheus } from './prometheus.ts'

const PATIENCE_MS = 60_000

const node = forAll(
  () => startPrivateNode({ plugins: ['rabbitmq_management', 'rabbitmq_prometheus'] }),
  (started) => started.stop(),
)
const vhost = forAll(
  () => node.createVhost(),
  async () => {}, // It ends with its node.
)
const gateway = forAll(
  () => Gateway.start({ amqpUrl: vhost.url }),
  (started) => started.dispose(),
)
const prometheus = forAll(
  () => startPrometheus([gateway.url], node.prometheusPort),
  (started) => started.stop(),
)

const push = (queue: string, job: object = {}) =>
  gateway.client.push({ type: 'report.make', args: [1], ...job, options: { queue, ...job } })

async function pushed(queue: string, job: object = {}): Promise<void> {
  expect((await push(queue, job)).status).toBe(201)
}

/** Takes one job and ends it. */
async function work(queue: string, error?: object): Promise<void> {
  const asked = { queues: [queue], count: 1, wait_ms: 10_000, worker_id: 'w' }
  const [job] = jobsOf(await gateway.client.fetch(asked))
  if (!job) throw new Error(`no job in ${queue}`)
  const report = { job_id: job.id, worker_id: 'w' }
  await gateway.client.send('POST', '/ojs/v1/workers/progress', { ...report, percentage: 50 })
  const path = error ? 'nack' : 'ack'
  const body = error ? { ...report, error } : { ...report, result: 1 }
  expect((await gateway.client.send('POST', `/ojs/v1/workers/${path}`, body)).status).toBe(200)
}

const FOR_GOOD = { code: 'broken', message: 'no', retryable: false }
const AGAIN = { code: 'later', message: 'not now', retryable: true }

describe('the dashboards of deploy/grafana', () => {
  const files = readdirSync(join(DEPLOY, 'grafana'))

  interface Panel {
    title: string
    type: string
    targets?: { expr: string }[]
  }
  const queriesOf = (file: string) => {
    const text = readFileSync(join(DEPLOY, 'grafana', file), 'utf8')
    const { panels } = JSON.parse(text) as { panels: Panel[] }
    return panels.flatMap(({ title, targets = [] }) =>
      targets.map(({ expr }) => ({ title, expr: withoutVariables(expr) })),
    )
  }
  const withoutVariables = (expr: string) =>
    expr.replaceAll('$__rate_interval', '30s').replaceAll(/"\$(instance|queue|node)"/g, '".*"')

  const withoutLabels = (expr: string) => expr.replaceAll(/by \([^)]*\)/g, '')

  /** Panels that are empty as long as nothing is wrong, or nobody uses what they show. */
  const EMPTY_WHEN_WELL = new Set([
    'Stuck for',
    'Refused, timed out, returned',
    'Reconnections and closed channels',
    'Paused',
    'Recurring jobs',
    'Messages that are no job',
    'Delivered again, lost',
    'Control messages',
    'Refused or invalid',
    'Requests that failed',
    'Retried, failed for good, expired, cancelled',
  ])

  async function load(): Promise<void> {
    for (let i = 0; i < 5; i++) await pushed('email')
    for (let i = 0; i < 3; i++) await work('email')
    await work('email', FOR_GOOD)
    await pushed('email', { retry: { max_attempts: 3, initial_interval: 'PT0.1S' } })
    const all = { filter: { queue: 'email', state: 'discarded' }, confirm: true }
    await gateway.client.send('POST', '/ojs/v1/admin/jobs/bulk/delete', all)
  }

  test('cover the gateway, queues, workers and RabbitMQ', () => {
    expect(files).toEqual(['gateway.json', 'queues.json', 'rabbitmq.json', 'workers.json'])
  })

  test.each(files)('%s: each query has an answer while the gateway works', async (file) => {
    const queries = queriesOf(file)
    expect(queries.length).toBeGreaterThan(10)
    const unanswered = new Set(queries)
    await eventually(async () => {
      await load()
      for (const query of unanswered) {
        const isAnswered = (await prometheus.query(query.expr)).length > 0
        if (isAnswered || EMPTY_WHEN_WELL.has(query.title)) unanswered.delete(query)
      }
      return unanswered.size === 0
    }, PATIENCE_MS).catch(() => expect([...unanswered]).toEqual([]))
  })

  test('name only metrics that the gateway or RabbitMQ has', async () => {
    const own = await (await fetch(`${gateway.url}/metrics`)).text()
    const theirs = await (await fetch(`http://127.0.0.1:${node.prometheusPort}/metrics`)).text()
    const waiting = standbyMetrics({ version: '', isLedgerReachable: () => true })
    const known = new Set(
      [...`${own}\n${theirs}\n${await waiting.text()}`.matchAll(/^# TYPE (\S+)/gm)].map(
        ([, name]) => name,
      ),
    )
    const named = files
      .flatMap(queriesOf)
      .flatMap(({ expr }) => [
        ...withoutLabels(expr).matchAll(/\b(?:ojs|rabbitmq|process|nodejs)_\w+/g),
      ])
    const unknown = named
      .map(([name]) => name)
      .filter((name) => !known.has(name) && !known.has(name.replace(/_(bucket|count|sum)$/, '')))
    expect(unknown).toEqual([])
  })
})

describe('the alerts of deploy/prometheus', () => {
  async function firing(): Promise<Record<string, string>[]> {
    const found = await prometheus.query('ALERTS{alertstate="firing"}')
    return found.map(({ metric }) => metric)
  }

  /** Provokes it again and again, because a rate needs two samples. */
  async function untilFires(
    alert: string,
    labels: Record<string, string>,
    provoke: () => Promise<void> = async () => {},
  ): Promise<void> {
    const wanted = expect.arrayContaining([
      expect.objectContaining({ alertname: alert, ...labels }),
    ])
    await expect
      .poll(
        async () => {
          await provoke()
          return firing()
        },
        { timeout: PATIENCE_MS, interval: 250 },
      )
      .toEqual(wanted)
  }

  test('are silent while everything is well', async () => {
    await pushed('well')
    await work('well')
    const well = await prometheus.query(
      'ALERTS{queue="well"} or ALERTS{alertname=~"OjsUnhealthy|OjsHealthWarns"}',
    )
    expect(well).toEqual([])
  })

  test('OjsQueueForgottenPaused', async () => {
    await pushed('paused')
    await gateway.client.send('POST', '/ojs/v1/queues/paused/pause')
    await untilFires('OjsQueueForgottenPaused', { queue: 'paused', severity: 'warning' })
  })

  test('OjsQueueNotWorkedOff', async () => {
    await pushed('idle')
    await untilFires('OjsQueueNotWorkedOff', { queue: 'idle', severity: 'critical' })
  })

  test('OjsEverythingFails', async () => {
    const retry = { max_attempts: 2, initial_interval: 'PT1H' }
    await untilFires('OjsEverythingFails', { queue: 'failing' }, async () => {
      for (let i = 0; i < 5; i++) {
        await pushed('failing', { retry })
        await work('failing', AGAIN)
      }
    })
  })

  test('OjsDeadLetters', async () => {
    await untilFires('OjsDeadLetters', { queue: 'dying' }, async () => {
      await pushed('dying')
      await work('dying', FOR_GOOD)
    })
  })

  test('OjsForeignMessages', async () => {
    await pushed('foreign')
    const connection = await connect(vhost.url)
    const channel = await connection.createChannel()
    channel.sendToQueue('ojs.queue.foreign', Buffer.from('hello'))
    await channel.close()
    await connection.close()
    // Something has to consume the queue.
    const asked = { queues: ['foreign'], count: 2, wait_ms: 100, worker_id: 'w' }
    await untilFires('OjsForeignMessages', { queue: 'foreign' }, async () => {
      await gateway.client.fetch(asked)
    })
  })

  test('OjsTokensOwed', async () => {
    await pushed('full')
    const limits = { 'max-length': 1, overflow: 'reject-publish' }
    await vhost.setPolicy('full', '^ojs\\.queue\\.full$', limits)
    await eventually(async () => (await push('full')).status !== 201)
    await pushed('full', { scheduled_at: new Date(Date.now() + 500).toISOString() })
    await untilFires('OjsTokensOwed', { queue: 'full', severity: 'critical' })
  })

  test('OjsHealthWarns', async () => {
    const path = '/ojs/v1/admin/maintenance'
    expect((await gateway.client.send('POST', path, { enabled: true })).status).toBe(200)
    await untilFires('OjsHealthWarns', { code: 'maintenance' })
    expect((await gateway.client.send('POST', path, { enabled: false })).status).toBe(200)
  })

  test('OjsUnhealthy', async () => {
    await node.stop()
    await untilFires('OjsUnhealthy', { severity: 'critical' })
  })
})
