import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { eventually } from '../support/gateway/in-process.ts'
import { scrape } from '../telemetry/exposition-text.ts'
import { amqpStage, answerTo, deliveryOf, headersOf, METRICS, publishesOf } from './stage.ts'

const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
const TRACESTATE = 'vendor=value'

/** Writes the shipped topology with limits for two queues. */
function topologyWithLimits(): { path: string; remove(): void } {
  const dir = mkdtempSync(join(tmpdir(), 'ojs-topology-'))
  const shipped = new URL('../../topology/topology.json', import.meta.url)
  const topology = JSON.parse(readFileSync(shipped, 'utf8'))
  topology.queues = { small: { maxLength: 1 }, short: { maxLengthBytes: 10_000 } }
  const path = join(dir, 'topology.json')
  writeFileSync(path, JSON.stringify(topology))
  return { path, remove: () => rmSync(dir, { recursive: true }) }
}

describe('a gateway with the shipped topology and limits for two queues', () => {
  const topology = topologyWithLimits()
  afterAll(() => topology.remove())
  const { wire, gateway, admin, clients } = amqpStage({ OJS_TOPOLOGY: topology.path })

  it('AMQP-022 supports scheduled jobs: the ledger holds them, and publishes them at their time', async () => {
    const dueAt = Date.now() + 5_000
    const scheduledAt = new Date(dueAt).toISOString()
    const id = await clients.push('scheduled', { options: { scheduled_at: scheduledAt } })
    expect((await gateway.get(id)).body.job).toMatchObject({ state: 'scheduled' })
    const fetching = clients.fetch('scheduled')
    // Stops 50 ms before the job is due, because a later check might rightly find the publish.
    while (Date.now() < dueAt - 50) {
      expect(publishesOf(wire, id)).toEqual([])
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    expect(await fetching).toMatchObject([{ id, attempt: 1 }])
    expect(Date.now()).toBeGreaterThanOrEqual(dueAt)
    const [publish, ...others] = publishesOf(wire, id)
    expect(others).toEqual([])
    expect(publish?.fields).toMatchObject({ exchange: 'ojs.exchange.direct' })
    expect(publish && headersOf(publish)).toMatchObject({ 'x-ojs-scheduled-at': scheduledAt })
  })

  it('AMQP-023 propagates W3C trace context via message headers, through retries', async () => {
    const retry = { initial_interval_ms: 500, jitter: false }
    const body = { type: 'a.b', args: [], options: { queue: 'traced', retry } }
    const headers = { traceparent: TRACEPARENT, tracestate: TRACESTATE }
    const pushed = await gateway.request('POST', '/ojs/v1/jobs', body, headers)
    const { id } = pushed.body.job
    await clients.fetch('traced')
    await clients.fail(id)
    expect(await clients.fetch('traced')).toMatchObject([{ id, attempt: 2 }])
    const publishes = publishesOf(wire, id)
    expect(publishes).toHaveLength(2)
    for (const message of [...publishes, deliveryOf(wire, id)]) {
      expect(headersOf(message)).toMatchObject({
        'x-ojs-trace-id': TRACEPARENT,
        'x-ojs-trace-state': TRACESTATE,
      })
    }
  })

  it('AMQP-024 exposes the AMQP-specific metrics under their names', async () => {
    for (let i = 0; i < 3; i++) await clients.push('metered')
    const [done, failed] = await clients.fetch('metered', 3)
    await gateway.ack(done?.id ?? '')
    await clients.fail(failed?.id ?? '', { retryable: false })
    const lines = (await scrape(gateway)).split('\n').filter((line) => /ojs_amqp/.test(line))
    for (const [name, type] of Object.entries(METRICS)) {
      expect(lines).toContain(`# TYPE ${name} ${type}`)
      const sample = new RegExp(`^${name}(_count)?(\\{.*\\})? \\d`)
      expect([name, lines.some((line) => sample.test(line))]).toEqual([name, true])
    }
    for (const [name, value] of Object.entries({
      published: 3,
      consumed: 3,
      acked: 1,
      nacked: 1,
    })) {
      expect(lines).toContain(`ojs_amqp_messages_${name}_total{queue="metered"} ${value}`)
    }
    expect(lines).toContain(`ojs_amqp_consumer_utilization{queue="metered"} ${1 / 32}`)
  })

  it('AMQP-029 supports x-max-length with x-overflow=reject-publish: a full queue is a 429', async () => {
    const ids = [await clients.push('small')]
    const declared = await wire.next('QueueDeclare', { queue: 'ojs.queue.small', passive: false })
    const limits = { 'x-max-length': 1, 'x-overflow': 'reject-publish' }
    expect(declared.fields['arguments']).toMatchObject(limits)
    const from = wire.methods.length
    // A quorum queue may exceed its limit for a while, so this pushes until the first refusal.
    let answer = await gateway.push('small')
    for (; answer.status === 201 && ids.length < 100; answer = await gateway.push('small')) {
      ids.push(answer.body.job.id)
    }
    expect(answer).toMatchObject({ status: 429, body: { error: { code: 'rate_limited' } } })
    await wire.next('BasicNack', ({ from: sender }) => sender === 'broker', from)
    for (const id of ids) {
      await clients.fetch('small')
      await gateway.ack(id)
    }
    await eventually(async () => (await gateway.push('small')).status === 201)

    await clients.push('short')
    const short = await wire.next('QueueDeclare', { queue: 'ojs.queue.short', passive: false })
    const bytes = { 'x-max-length-bytes': 10_000, 'x-overflow': 'reject-publish' }
    expect(short.fields['arguments']).toMatchObject(bytes)
  })

  it('AMQP-030 supports x-max-priority: RabbitMQ delivers by priority', async () => {
    const ids = new Map<number, string>()
    for (const priority of [1, 9, 0, 5]) {
      ids.set(priority, await clients.push('urgent', { options: { priority } }))
    }
    const declared = await wire.next('QueueDeclare', { queue: 'ojs.queue.urgent', passive: false })
    expect(declared.fields['arguments']).toMatchObject({ 'x-max-priority': 10 })
    const inOrder = [9, 5, 1, 0].map((priority) => ids.get(priority))
    expect(await admin.takeAll('ojs.queue.urgent')).toEqual(inOrder)
  })
})

describe('a gateway with OJS_QUEUE_TYPE=quorum', () => {
  const { wire, gateway, admin, clients } = amqpStage({ OJS_QUEUE_TYPE: 'quorum' })

  it('AMQP-032 uses quorum queues for durability', async () => {
    const id = await clients.push('replicated', {
      options: { retry: { initial_interval_ms: 500, jitter: false } },
    })
    await clients.fetch('replicated')
    await clients.fail(id)
    expect(await clients.fetch('replicated')).toMatchObject([{ id, attempt: 2 }])
    await gateway.ack(id)
    const declared = wire.all('QueueDeclare', { passive: false, exclusive: false })
    expect(declared.length).toBeGreaterThan(4)
    for (const { fields } of declared) {
      expect(fields['arguments']).toMatchObject({ 'x-queue-type': 'quorum' })
    }
    const job = await wire.next('QueueDeclare', { queue: 'ojs.queue.replicated', passive: false })
    const arguments_ = job.fields['arguments']
    const declare = (over: object) =>
      answerTo(admin, (channel) =>
        channel.assertQueue('ojs.queue.replicated', {
          arguments: Object.assign({}, arguments_, over),
        }),
      )
    expect(await declare({})).toBe('ok')
    expect(await declare({ 'x-queue-type': 'classic' })).toBe(406)
  })
})
