import amqp from 'amqplib'
import { v7 } from 'uuid'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventually } from '../support/in-process.ts'
import { gatewayForAll } from './harness.ts'

const HUGE = 9.223372e18

describe('numbers that no column and no date can hold', () => {
  const { vhost, gateway } = gatewayForAll()
  let connection: amqp.ChannelModel
  let channel: amqp.ConfirmChannel

  beforeAll(async () => {
    connection = await amqp.connect(vhost.url)
    channel = await connection.createConfirmChannel()
  })
  afterAll(async () => {
    await connection.close()
  })

  async function publish(body: object, options: amqp.Options.Publish = {}): Promise<string> {
    const id = v7()
    const content = Buffer.from(JSON.stringify({ id, type: 'native.job', args: [], ...body }))
    channel.publish('ojs.exchange.direct', 'q', content, { messageId: id, ...options })
    await channel.waitForConfirms()
    return id
  }

  it.each([
    ['timeout_ms', { timeout_ms: HUGE }],
    ['timeout', { timeout: HUGE }],
    ['visibility_timeout_ms', { visibility_timeout_ms: HUGE }],
    ['visibility_timeout', { visibility_timeout: HUGE }],
    ['retry.max_attempts', { retry: { max_attempts: HUGE } }],
  ])('are refused over HTTP: %s', async (field, options) => {
    const answer = await gateway.push('q', { options })
    expect([400, 422]).toContain(answer.status)
    expect(answer.body.error.details.field).toBe(answer.status === 422 ? field : `options.${field}`)
  })

  it('in a native message go to the dead letters, and hold up no other job', async () => {
    const first: string = (await gateway.push('q')).body.job.id
    await publish({ timeout_ms: 1e300 })
    await publish({ retry: { max_attempts: 1e300 } })
    const odd = await publish({}, { timestamp: 1_700_000_000_000_000 })
    const last: string = (await gateway.push('q')).body.job.id
    const got: string[] = []
    await eventually(async () => {
      const jobs = await gateway.fetch(['q'], { count: 10, wait_ms: 500 })
      got.push(...jobs.map((job) => job.id))
      return got.length >= 3
    })
    // Microseconds where AMQP wants seconds: no reason to refuse the job.
    expect(got).toEqual([first, odd, last])
    const dead = async () => (await channel.checkQueue('ojs.queue.dlx.q')).messageCount
    await eventually(async () => (await dead()) === 2)
  })
})
