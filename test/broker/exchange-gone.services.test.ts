import { describe, expect, it } from 'vitest'
import { eventually } from '../support/gateway/in-process.ts'
import { vhostOfTest } from './fixtures.ts'
import { row } from './harness.ts'

const { admin, vhost, start } = vhostOfTest()

async function isThere(exchange: string): Promise<boolean> {
  return (await vhost.exchanges()).includes(exchange)
}

describe('deleted entities that nobody publishes to', () => {
  it('an exchange is declared again, and rejected messages reach their dead letter queue', async () => {
    const { broker, recorder } = await start({ watchMs: 50 })
    await broker.ensureQueue('email')
    await admin.channel.deleteExchange('ojs.exchange.dlx')
    await eventually(() => isThere('ojs.exchange.dlx'))
    await eventually(() => broker.isDeclared('email'))
    const job = row()
    expect(await broker.publish(job)).toBe('confirmed')
    const message = await admin.channel.get('ojs.queue.email')
    if (message === false) throw new Error('the queue is empty')
    admin.channel.nack(message, false, false)
    await recorder.until('onDeadLetter', 1, job.id)
    expect(await admin.takeAll('ojs.queue.dlx.email')).toEqual([job.id])
  })

  it('an exchange does not keep retries from returning to their job queue', async () => {
    const { broker } = await start({ watchMs: 50 })
    const retryQueueMs = 4_000
    expect(await broker.ensureRetryQueue('email', retryQueueMs)).toBe('ready')
    const job = row(
      {},
      { state: 'retryable', retryQueueMs, attempt: 1, dueAt: Date.now() + retryQueueMs },
    )
    expect(await broker.publish(job)).toBe('confirmed')
    await admin.channel.deleteExchange('ojs.exchange.direct')
    await eventually(async () => (await admin.takeAll('ojs.queue.email')).includes(job.id))
  })

  it('an exchange does not keep a new queue from being declared', async () => {
    const { broker } = await start({ watchMs: 50 })
    await admin.channel.deleteExchange('ojs.exchange.dlx')
    await eventually(async () => (await broker.ensureQueue('later')) === 'ready')
  })

  it('an exchange is only warned of with declare: never', async () => {
    const before = await start()
    await before.broker.ensureQueue('email')
    await before.stop()
    const { broker } = await start({ watchMs: 50, declare: 'never', queues: ['email'] })
    await admin.channel.deleteExchange('ojs.exchange.dlx')
    await eventually(() => broker.warnings().some(({ code }) => code === 'exchange_missing'))
    expect(await isThere('ojs.exchange.dlx')).toBe(false)
    await admin.channel.assertExchange('ojs.exchange.dlx', 'direct')
    await eventually(() => broker.warnings().length === 0)
  })

  it('queues are warned of with declare: never until they exist again', async () => {
    const before = await start()
    await before.broker.ensureQueue('email')
    await before.stop()
    const names = ['ojs.queue.dlx.email', 'ojs.queue.control.email']
    for (const name of names) await admin.channel.deleteQueue(name)
    const { broker } = await start({ watchMs: 50, declare: 'never', queues: ['email'] })
    const missing = () => broker.warnings().map(({ details }) => details?.['entity'])
    expect(missing()).toEqual(names)
    for (const name of names) {
      await admin.channel.assertQueue(name)
      await eventually(() => !missing().includes(name))
    }
  })
})
