import { v7 } from 'uuid'
import { describe, expect, it } from 'vitest'
import { vhostOfTest } from './fixtures.ts'
import { row } from './harness.ts'

const { vhost, admin, start } = vhostOfTest()

const forgetting = { isIdle: () => true, forget: async () => true }
const ALL = ['ojs.queue.email', 'ojs.queue.control.email', 'ojs.queue.dlx.email']

async function existing(): Promise<string[]> {
  const found = await Promise.all(ALL.map((name) => vhost.queue(name)))
  return ALL.filter((_, i) => found[i] !== undefined)
}

describe.each(['classic', 'quorum'] as const)('forgetting a queue (%s)', (queueType) => {
  it('deletes its queues; meanwhile nothing is published to it, and whoever needs it waits', async () => {
    const { broker } = await start({ queueType })
    await broker.ensureQueue('email')
    const job = row({ queue: 'email' })
    let isDeclared = true
    let published: string | undefined
    let again: Promise<unknown> | undefined
    const watching = {
      isIdle: () => true,
      forget: async () => {
        expect(await existing()).toEqual([])
        isDeclared = broker.isDeclared('email')
        published = await broker.publish(job)
        again = broker.ensureQueue('email')
        return true
      },
    }
    // The control queue's consumer may just be beginning: then the queue counts as used.
    await expect.poll(() => broker.removal.forget('email', watching)).toBe(true)
    expect({ isDeclared, published }).toEqual({ isDeclared: false, published: 'returned' })
    expect(await again).toBe('ready')
    expect(await broker.publish(job)).toBe('confirmed')
    expect(await admin.takeAll('ojs.queue.email')).toEqual([job.id])
    // What has no message and no consumer is deleted although a job message went through it.
    await expect.poll(() => broker.removal.forget('email', forgetting)).toBe(true)
  })

  it('leaves a queue that is in use as it was: a message, a consumer, a control message, a new job', async () => {
    const { broker, recorder } = await start({ queueType })
    await broker.ensureQueue('email')
    const { channel } = admin
    expect(await broker.removal.forget('email', { ...forgetting, isIdle: () => false })).toBe(false)
    expect(await broker.removal.forget('email', { ...forgetting, forget: async () => false })).toBe(
      false,
    )
    expect(await existing()).toEqual(ALL)
    // Somebody waits for the queue, whose name turns out to be in use again.
    let published: Promise<string> | undefined
    const publish = () => broker.publish(row({ queue: 'email' }))
    const wanted = async () => {
      published = broker.ensureQueue('email').then(publish)
      return false
    }
    expect(await broker.removal.forget('email', { ...forgetting, forget: wanted })).toBe(false)
    expect(await published).toBe('confirmed')
    expect(await admin.takeAll('ojs.queue.email')).toHaveLength(1)
    const id = v7()
    await admin.publish('ojs.queue.email', [id])
    expect(await broker.removal.forget('email', forgetting)).toBe(false)
    expect(await admin.takeAll('ojs.queue.email')).toEqual([id])
    const { consumerTag } = await channel.consume('ojs.queue.email', () => {})
    expect(await broker.removal.forget('email', forgetting)).toBe(false)
    await channel.cancel(consumerTag)
    expect(await existing()).toEqual(ALL)
    // Its control queue is consumed as before.
    channel.publish('ojs.exchange.direct', 'ojs.queue.control.email', Buffer.from('{}'))
    await recorder.until('onControl', 1)
    const job = row({ queue: 'email' })
    expect(await broker.publish(job)).toBe('confirmed')
    expect(await admin.takeAll('ojs.queue.email')).toEqual([job.id])
  })

  it('keeps dead letters that are still there, and goes on in spite of them', async () => {
    const { broker } = await start({ queueType })
    await broker.ensureQueue('email')
    await admin.publish('ojs.queue.dlx.email', ['dead'])
    await expect.poll(() => broker.removal.forget('email', forgetting)).toBe(true)
    expect(await existing()).toEqual(['ojs.queue.dlx.email'])
    expect(await broker.ensureQueue('email')).toBe('ready')
  })
})

it('is refused for configured queues, with other strategies than lazy, and for queues of others', async () => {
  const { broker, stop } = await start({ queues: ['email'] })
  await broker.ensureQueue('email')
  expect(await broker.removal.forget('email', forgetting)).toBe(false)
  expect(await broker.removal.forget('default', forgetting)).toBe(false)
  await stop()
  const eager = await start({ declare: 'eager', queues: ['default'] })
  expect(await eager.broker.removal.forget('email', forgetting)).toBe(false)
  await eager.stop()
  const lazy = await start()
  await admin.channel.assertQueue('ojs.queue.theirs', { arguments: { 'x-max-priority': 3 } })
  await lazy.broker.ensureQueue('theirs')
  expect(await lazy.broker.removal.forget('theirs', forgetting)).toBe(false)
  expect(await vhost.queue('ojs.queue.control.theirs')).toBeDefined()
  expect(await existing()).toEqual(ALL)
})
