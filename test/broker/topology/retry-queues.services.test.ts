import { once } from 'node:events'
import { createServer } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { freePort } from '../../../scripts/process/ports.mjs'
import type { Connection } from '../../../src/broker/connection/connection.ts'
import { createNames } from '../../../src/broker/names.ts'
import { SILENT_OBSERVER } from '../../../src/broker/observer.ts'
import type { RabbitBroker } from '../../../src/broker/rabbit-broker.ts'
import { EntityChecker } from '../../../src/broker/topology/entity-checker.ts'
import { RetryQueues } from '../../../src/broker/topology/retry-queues.ts'
import { topologyDiff } from '../../../src/broker/topology/topology-diff.ts'
import { systemClock } from '../../../src/clock.ts'
import type { NewJob } from '../../../src/job/job.ts'
import { vhostOfTest } from '../fixtures.ts'
import {
  logger,
  options,
  request,
  row,
  scratch,
  startConnection,
  type TestBroker,
  topologyWith,
} from '../harness.ts'

const { vhost, admin, start, reconnectAdmin } = vhostOfTest()

function retry(retryQueueMs: number, attempt = 1, given: Partial<NewJob> = {}) {
  const error = JSON.stringify({ code: 'handler_error', message: 'no luck' })
  return row(given, {
    state: 'retryable',
    retryQueueMs,
    attempt,
    error,
    dueAt: Date.now() + retryQueueMs,
  })
}

function retryQueueName(delayMs: number, queue = 'email'): string {
  return `ojs.queue.retry.${queue}.${delayMs}`
}

async function exists(queue: string): Promise<boolean> {
  const channel = await scratch(admin)
  return channel.checkQueue(queue).then(
    () => channel.close().then(() => true),
    () => false,
  )
}

/** Declares a retry queue as the Python of seed 002 §15.3 does. */
async function declareClassicRetryQueue(delayMs: number, queue = 'email'): Promise<void> {
  const { channel } = admin
  await channel.assertExchange('ojs.exchange.retry', 'direct')
  await channel.assertQueue(retryQueueName(delayMs, queue), {
    durable: true,
    arguments: {
      'x-dead-letter-exchange': 'ojs.exchange.direct',
      'x-dead-letter-routing-key': queue,
      'x-message-ttl': delayMs,
    },
  })
  await channel.bindQueue(
    retryQueueName(delayMs, queue),
    'ojs.exchange.retry',
    `${queue}.${delayMs}`,
  )
}

function eventsOf({ recorder }: TestBroker): string[] {
  const { seen } = recorder
  return seen.filter(({ event }) => event.startsWith('onRetryQueue')).map(({ event }) => event)
}

/** Retry queues as a gateway handles them, on a connection of the test's own. */
function newRetryQueues(
  connection: Connection,
  broker: RabbitBroker,
  queues: ConstructorParameters<typeof RetryQueues>[0]['hooks']['queues'],
): RetryQueues {
  const checker = { options: { declare: 'lazy' }, observer: SILENT_OBSERVER, logger } as const
  return new RetryQueues({
    connection,
    topology: topologyWith(),
    names: createNames(''),
    checker: new EntityChecker(checker),
    options: { declare: 'lazy', maxRetryQueues: 10, retryQueueSettleMs: 0 },
    hooks: { queues },
    clock: systemClock(),
    logger,
    ensureQueue: (queue) => broker.ensureQueue(queue),
  })
}

describe.each([
  ['classic', ''],
  ['quorum', ''],
  ['classic', 'tenant1'],
] as const)('a retry, profile %s, prefix %o', (queueType, prefix) => {
  it('comes back through its retry queue as it was published, for the next attempt', async () => {
    const { broker } = await start({ queueType, prefix })
    expect(broker.isRetryQueueReady('email', 250)).toBe(false)
    expect(await broker.ensureRetryQueue('email', 250)).toBe('ready')
    expect(broker.isRetryQueueReady('email', 250)).toBe(true)
    expect(broker.isRetryQueueReady('email', 350)).toBe(false)
    const job = retry(250, 1, {
      priority: 3,
      carry: { headers: { tenant: 'blue' }, correlationId: 'c-1', tags: ['a', 'b'] },
    })
    expect(await broker.publish(job)).toBe('confirmed')
    const [delivery] = await broker.take(request(['email']))
    expect(delivery).toMatchObject({ id: job.id, attempt: 2, generation: 0 })
    const message = delivery?.message
    expect(message?.content.toString()).toBe(job.envelope)
    expect(message?.properties).toMatchObject({ priority: 3, correlationId: 'c-1' })
    expect(message?.headers).toMatchObject({
      tenant: 'blue',
      'x-ojs-attempt': 2,
      'x-ojs-error-code': 'handler_error',
      'x-ojs-error-message': 'no luck',
      'x-ojs-tags': 'a,b',
    })
    const dot = prefix === '' ? '' : `${prefix}.`
    expect(message?.headers['x-death']).toMatchObject([
      { reason: 'expired', queue: `${dot}${retryQueueName(250)}`, 'routing-keys': ['email.250'] },
    ])
    delivery?.ack()
  })

  it('can be published again and again with what its delivery carried', async () => {
    const { broker } = await start({ queueType, prefix })
    await broker.ensureRetryQueue('email', 125)
    let carry: NewJob['carry'] = { headers: { tenant: 'blue' } }
    for (const attempt of [1, 2, 3]) {
      const job = retry(125, attempt, { carry })
      expect(await broker.publish(job)).toBe('confirmed')
      const [delivery] = await broker.take(request(['email']))
      expect(delivery).toMatchObject({ id: job.id, attempt: attempt + 1 })
      expect(delivery?.message.headers['x-death']).toHaveLength(1)
      // What is carried has no x-death header, which could make 3.10 drop the message as a cycle.
      carry = delivery?.carry() ?? null
      expect(carry?.headers).toEqual({ tenant: 'blue' })
      delivery?.ack()
    }
  })
})

describe('a retry queue', () => {
  it('is a quorum queue with at-least-once dead lettering, and the next run finds no difference', async () => {
    const test = await start()
    await test.broker.ensureRetryQueue('email', 1000)
    expect(await vhost.queue(retryQueueName(1000))).toMatchObject({
      durable: true,
      arguments: {
        'x-queue-type': 'quorum',
        'x-dead-letter-exchange': 'ojs.exchange.direct',
        'x-dead-letter-routing-key': 'email',
        'x-dead-letter-strategy': 'at-least-once',
        'x-overflow': 'reject-publish',
        'x-message-ttl': 1000,
      },
    })
    expect(await exists('ojs.queue.email')).toBe(true)
    await test.stop()
    const { broker, recorder } = await start()
    expect(await broker.ensureRetryQueue('email', 1000)).toBe('ready')
    expect(broker.warnings()).toEqual([])
    expect(recorder.count('declareConflict')).toBe(0)
  })

  it('is recorded in the ledger before it is ready, once for many callers', async () => {
    const seen: boolean[] = []
    let test: TestBroker | undefined
    test = await start(
      {},
      {
        onRetryQueueDeclared: async () => {
          seen.push(
            await exists(retryQueueName(500)),
            test?.broker.isRetryQueueReady('email', 500) ?? true,
          )
        },
      },
    )
    const { broker } = test
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => broker.ensureRetryQueue('email', 500)),
    )
    expect(new Set(answers)).toEqual(new Set(['ready']))
    expect(seen).toEqual([true, false])
    expect(await broker.ensureRetryQueue('email', 500)).toBe('ready')
    expect(seen).toHaveLength(2)
  })

  it('is not used until the ledger can record it', async () => {
    let isLedgerFull = true
    let now = 1_000_000
    const { broker } = await start(
      {},
      {
        onRetryQueueDeclared: async () => {
          if (isLedgerFull) throw new Error('disk full')
        },
      },
      { clock: { now: () => now, wall: () => Date.now() } },
    )
    expect(await broker.ensureRetryQueue('email', 500)).toBe('unusable')
    expect(broker.isRetryQueueReady('email', 500)).toBe(false)
    isLedgerFull = false
    expect(await broker.ensureRetryQueue('email', 500)).toBe('unusable')
    now += 5_001
    expect(await broker.ensureRetryQueue('email', 500)).toBe('ready')
  })

  it('is unusable at once without RabbitMQ', async () => {
    const { broker } = await start({ amqpUrls: ['amqp://127.0.0.1:1'] })
    expect(await broker.ensureRetryQueue('email', 500)).toBe('unusable')
    expect(await broker.recheckRetryQueue('email', 500)).toBe('unusable')
  })

  it('is declared when a retry is published to it, and the publish is refused until it is ready', async () => {
    const test = await start()
    const job = retry(500)
    expect(await test.broker.publish(job)).toBe('refused')
    await test.recorder.until('onRetryQueueDeclared', 1, 'email', 500)
    await expect.poll(() => test.broker.publish(job)).toBe('confirmed')
  })
})

describe('a new retry queue', () => {
  const clockAt = (time: { now: number }) => ({ now: () => time.now, wall: () => Date.now() })

  it('gets no job message until RabbitMQ has had retryQueueSettleMs to write it to disk', async () => {
    const time = { now: 1_000_000 }
    const test = await start({ retryQueueSettleMs: 2_000 }, {}, { clock: clockAt(time) })
    const { broker } = test
    expect(await broker.ensureRetryQueue('email', 500)).toBe('unusable')
    expect(await exists(retryQueueName(500))).toBe(true)
    expect(eventsOf(test)).toEqual(['onRetryQueueDeclared'])
    time.now += 1_999
    expect(await broker.ensureRetryQueue('email', 500)).toBe('unusable')
    expect(await broker.recheckRetryQueue('email', 500)).toBe('unusable')
    expect(await broker.publish(retry(500))).toBe('refused')
    time.now += 1
    expect(await broker.ensureRetryQueue('email', 500)).toBe('ready')
    expect(await broker.publish(retry(500))).toBe('confirmed')
    expect(eventsOf(test)).toEqual(['onRetryQueueDeclared'])
  })

  it('is ready after that without being asked for, for failures that cannot wait', async () => {
    const { broker } = await start({ retryQueueSettleMs: 200 })
    expect(await broker.ensureRetryQueue('email', 500)).toBe('unusable')
    expect(broker.isRetryQueueReady('email', 500)).toBe(false)
    await expect.poll(() => broker.isRetryQueueReady('email', 500)).toBe(true)
  })

  it('is unusable for ten minutes when the connection is lost before that', async () => {
    const time = { now: 1_000_000 }
    const recordedRetryQueues = () => [{ queue: 'email', delayMs: 500 }]
    const given = { retryQueueSettleMs: 2_000 }
    const { broker, recorder } = await start(
      given,
      { recordedRetryQueues },
      { clock: clockAt(time) },
    )
    await recorder.until('onRetryQueueDeclared', 1, 'email', 500)
    await vhost.closeConnections()
    await recorder.until('onUp', 2)
    await reconnectAdmin()
    time.now += 599_999
    expect(await broker.recheckRetryQueue('email', 500)).toBe('unusable')
    time.now += 1
    expect(await broker.ensureRetryQueue('email', 500)).toBe('ready')
  })

  it('is used at once when an earlier run has declared it', async () => {
    const before = await start()
    await before.broker.ensureRetryQueue('email', 500)
    await before.stop()
    const recordedRetryQueues = () => [{ queue: 'email', delayMs: 500 }]
    const { broker } = await start({ retryQueueSettleMs: 60_000 }, { recordedRetryQueues })
    expect(await broker.ensureRetryQueue('email', 500)).toBe('ready')
  })
})

describe('a retry queue that is not ours (seed 002 §15.3)', () => {
  it('is kept, warned of and never used; the next delay gets a queue of ours', async () => {
    await declareClassicRetryQueue(1000)
    const test = await start()
    const { broker, recorder } = test
    expect(await broker.ensureRetryQueue('email', 1000)).toBe('unusable')
    expect(await broker.publish(retry(1000))).toBe('refused')
    expect(await broker.ensureRetryQueue('email', 1400)).toBe('ready')
    expect(broker.warnings()).toMatchObject([
      { code: 'queue_differs', details: { entity: retryQueueName(1000) } },
    ])
    expect(eventsOf(test)).toEqual(['onRetryQueueDeclared'])
    expect((await admin.channel.checkQueue(retryQueueName(1000))).messageCount).toBe(0)
    // The answer is kept, because retries ask for it often.
    for (let i = 0; i < 20; i++)
      expect(await broker.ensureRetryQueue('email', 1000)).toBe('unusable')
    expect(recorder.count('declareConflict', retryQueueName(1000))).toBe(1)
    const diff = await topologyDiff({ ...options(vhost.url), queues: ['email'] })
    expect(diff).toMatchObject([
      { code: 'queue_differs', details: { entity: retryQueueName(1000) } },
    ])
  })

  it('is checked again after a minute, and by recheckRetryQueue()', async () => {
    let now = 1_000_000
    const clock = { now: () => now, wall: () => Date.now() }
    await declareClassicRetryQueue(1000)
    await declareClassicRetryQueue(2000)
    const { broker } = await start({}, {}, { clock })
    expect(await broker.ensureRetryQueue('email', 1000)).toBe('unusable')
    expect(await broker.ensureRetryQueue('email', 2000)).toBe('unusable')
    await admin.channel.deleteQueue(retryQueueName(1000))
    await admin.channel.deleteQueue(retryQueueName(2000))
    now += 59_999
    expect(await broker.ensureRetryQueue('email', 1000)).toBe('unusable')
    expect(await broker.recheckRetryQueue('email', 2000)).toBe('ready')
    now += 1
    expect(await broker.ensureRetryQueue('email', 1000)).toBe('ready')
    expect(broker.warnings()).toEqual([])
  })

  it('is not bound to the retry exchange', async () => {
    const { channel } = admin
    await channel.assertQueue(retryQueueName(1000), { arguments: { 'x-message-ttl': 1000 } })
    const { broker } = await start()
    expect(await broker.ensureRetryQueue('email', 1000)).toBe('unusable')
    channel.publish('ojs.exchange.retry', 'email.1000', Buffer.from('x'))
    await channel.waitForConfirms()
    expect((await channel.checkQueue(retryQueueName(1000))).messageCount).toBe(0)
  })

  it('in the place of ours makes the gateway report ours as missing', async () => {
    const test = await start()
    await test.broker.ensureRetryQueue('email', 1000)
    await admin.channel.deleteQueue(retryQueueName(1000))
    await declareClassicRetryQueue(1000)
    expect(await test.broker.recheckRetryQueue('email', 1000)).toBe('unusable')
    expect(eventsOf(test)).toEqual(['onRetryQueueDeclared', 'onRetryQueueMissing'])
    expect(test.broker.isRetryQueueReady('email', 1000)).toBe(false)
  })
})

describe('a retry queue that was deleted, or lost its binding', () => {
  it('is reported to the ledger before it is declared again, when a publish to it is returned', async () => {
    const there: boolean[] = []
    const test = await start(
      {},
      {
        onRetryQueueMissing: async () => {
          there.push(await exists(retryQueueName(60_000)))
        },
      },
    )
    const { broker, recorder } = test
    await broker.ensureRetryQueue('email', 60_000)
    await admin.channel.deleteQueue(retryQueueName(60_000))
    const job = retry(60_000)
    expect(await broker.publish(job)).toBe('returned')
    expect(recorder.count('returned', 'email')).toBe(1)
    await recorder.until('onRetryQueueDeclared', 2)
    expect(await broker.ensureRetryQueue('email', 60_000)).toBe('ready')
    expect(there).toEqual([false])
    expect(await broker.publish(job)).toBe('confirmed')
    // The job queue existed all the time, and was not checked again.
    expect(recorder.count('onQueueMissing')).toBe(1)
    expect(broker.isDeclared('email')).toBe(true)
  })

  it('is not reported when it never existed', async () => {
    const test = await start()
    expect(await test.broker.recheckRetryQueue('email', 1000)).toBe('ready')
    expect(eventsOf(test)).toEqual(['onRetryQueueDeclared'])
  })

  it('is unusable until the ledger can take its jobs back', async () => {
    let isLedgerFull = true
    const missing: number[] = []
    const { broker } = await start(
      {},
      {
        recordedRetryQueues: () => [{ queue: 'email', delayMs: 4000 }],
        onRetryQueueMissing: async (_queue, delayMs) => {
          missing.push(delayMs)
          if (isLedgerFull) throw new Error('disk full')
        },
      },
      // The clock stands still, so that no answer that is kept expires.
      { clock: { now: () => 1_000_000, wall: () => Date.now() } },
    )
    await expect.poll(() => missing).toEqual([4000])
    expect(await broker.ensureRetryQueue('email', 4000)).toBe('unusable')
    expect(await exists(retryQueueName(4000))).toBe(false)
    isLedgerFull = false
    expect(await broker.recheckRetryQueue('email', 4000)).toBe('ready')
    expect(missing).toEqual([4000, 4000])
  })

  it('is noticed also when a native worker has declared and reported it', async () => {
    const recorded: { queue: string; delayMs: number }[] = []
    const missing: number[] = []
    const { broker } = await start()
    const connection = await startConnection(vhost.url, { name: 'declare' })
    const retryQueues = newRetryQueues(connection, broker, {
      recordedRetryQueues: () => recorded,
      onRetryQueueDeclared: async () => {},
      onRetryQueueMissing: async (_queue, delayMs) => void missing.push(delayMs),
    })
    await retryQueues.ensureKnown()
    // Deleted before the first check, and between two checks.
    recorded.push({ queue: 'email', delayMs: 60_000 })
    await retryQueues.patrol()
    expect([missing, await exists(retryQueueName(60_000))]).toEqual([[60_000], true])
    await retryQueues.patrol()
    await admin.channel.deleteQueue(retryQueueName(60_000))
    await retryQueues.patrol()
    expect(missing).toEqual([60_000, 60_000])
    // Or it is noticed when a retry needs it.
    recorded.push({ queue: 'email', delayMs: 90_000 })
    expect(await retryQueues.ensure('email', 90_000)).toBe('ready')
    expect(missing).toEqual([60_000, 60_000, 90_000])
    await connection.close()
  })

  it('is noticed by patrol(), although nothing is published to it', async () => {
    const { broker, recorder } = await start()
    const connection = await startConnection(vhost.url, { name: 'declare' })
    const note = (event: string) => async (queue: string, delayMs: number) =>
      recorder.note(event, queue, delayMs)
    const retryQueues = newRetryQueues(connection, broker, {
      recordedRetryQueues: () => [],
      onRetryQueueDeclared: note('declared'),
      onRetryQueueMissing: note('missing'),
    })
    await retryQueues.ensure('email', 60_000)
    await retryQueues.ensure('email', 90_000)
    await retryQueues.patrol()
    expect(recorder.count('missing')).toBe(0)
    await admin.channel.deleteQueue(retryQueueName(60_000))
    await retryQueues.patrol()
    expect(recorder.all('missing').map(({ args }) => args)).toEqual([['email', 60_000]])
    expect(retryQueues.isReady('email', 60_000)).toBe(true)
    expect(await exists(retryQueueName(60_000))).toBe(true)
    await connection.close()
    await retryQueues.patrol()
    expect(recorder.count('missing')).toBe(1)
    expect(retryQueues.isReady('email', 60_000)).toBe(false)
  })

  it('is bound again after its exchange was deleted', async () => {
    const { broker } = await start({ publishTimeoutMs: 5_000 })
    await broker.ensureRetryQueue('email', 250)
    await admin.channel.deleteExchange('ojs.exchange.retry')
    expect(await broker.publish(retry(250))).toBe('unknown')
    await expect.poll(() => broker.publish(retry(250))).toBe('confirmed')
    expect(await broker.take(request(['email']))).toHaveLength(1)
  })
})

describe('after a reconnect', () => {
  it('every recorded retry queue is checked, and a missing one is reported before it is declared', async () => {
    const recorded = [250, 1000, 60_000].map((delayMs) => ({ queue: 'email', delayMs }))
    const first = await start()
    for (const { delayMs } of recorded) await first.broker.ensureRetryQueue('email', delayMs)
    await first.stop()
    await admin.channel.deleteQueue(retryQueueName(1000))
    const test = await start({}, { recordedRetryQueues: () => recorded })
    const { broker, recorder } = test
    await recorder.until('onRetryQueueDeclared', 1, 'email', 1000)
    expect(eventsOf(test)).toEqual(['onRetryQueueMissing', 'onRetryQueueDeclared'])
    await expect
      .poll(() => recorded.map(({ delayMs }) => broker.isRetryQueueReady('email', delayMs)))
      .toEqual([true, true, true])

    await admin.channel.deleteQueue(retryQueueName(60_000))
    await vhost.closeConnections()
    await recorder.until('onRetryQueueDeclared', 1, 'email', 60_000)
    expect(recorder.count('onRetryQueueMissing', 'email', 60_000)).toBe(1)
    expect(recorder.count('onRetryQueueMissing')).toBe(2)
    await expect.poll(() => broker.isRetryQueueReady('email', 60_000)).toBe(true)
    await reconnectAdmin()
  })

  it('a retry queue that was unusable before is checked again', async () => {
    await declareClassicRetryQueue(1000)
    const { broker, recorder } = await start()
    expect(await broker.ensureRetryQueue('email', 1000)).toBe('unusable')
    await broker.ensureRetryQueue('email', 500)
    await admin.channel.deleteQueue(retryQueueName(1000))
    await vhost.closeConnections()
    await recorder.until('onUp', 2)
    await reconnectAdmin()
    expect(await broker.ensureRetryQueue('email', 1000)).toBe('ready')
  })
})

describe('a cluster', () => {
  it('gets no new retry queue while one of its hosts takes no connection; existing ones are used', async () => {
    const before = await start()
    await before.broker.ensureRetryQueue('email', 125)
    await before.stop()
    const port = await freePort()
    const away = vhost.url.replace(/:\d+\//, `:${port}/`)
    const recordedRetryQueues = () => [{ queue: 'email', delayMs: 125 }]
    const { broker } = await start({ amqpUrls: [vhost.url, away] }, { recordedRetryQueues })
    expect(await broker.ensureRetryQueue('email', 125)).toBe('ready')
    expect(await broker.ensureRetryQueue('email', 250)).toBe('unusable')
    expect(await exists(retryQueueName(250))).toBe(false)
    const back = createServer().listen(port, '127.0.0.1')
    onTestFinished(() => void back.close())
    await once(back, 'listening')
    expect(await broker.recheckRetryQueue('email', 250)).toBe('ready')
  })
})

describe('limits of retry queues', () => {
  it('hold over all queues; known retry queues stay usable', async () => {
    const recordedRetryQueues = () => [{ queue: 'old', delayMs: 1000 }]
    const test = await start({ maxRetryQueues: 3 }, { recordedRetryQueues })
    const { broker } = test
    const answers = await Promise.all(
      [125, 175, 250, 350].map((delayMs) => broker.ensureRetryQueue('email', delayMs)),
    )
    expect(answers).toEqual(['ready', 'ready', 'unusable', 'unusable'])
    expect(await exists(retryQueueName(250))).toBe(false)
    expect(await broker.ensureRetryQueue('old', 1000)).toBe('ready')
    expect(await broker.ensureRetryQueue('email', 125)).toBe('ready')
    expect(broker.warnings()).toMatchObject([{ code: 'too_many_rungs' }])
  })

  it('allow 16 exact delays per queue besides the ladder', async () => {
    const { broker } = await start()
    const exact = Array.from({ length: 17 }, (_, i) => 1_100 + i * 10)
    const answers = await Promise.all(
      exact.map((delayMs) => broker.ensureRetryQueue('email', delayMs)),
    )
    expect(answers.filter((answer) => answer === 'ready')).toHaveLength(16)
    expect(answers.at(-1)).toBe('unusable')
    expect(await exists(retryQueueName(1_260))).toBe(false)
    expect(await broker.ensureRetryQueue('email', 1_400)).toBe('ready')
    expect(await broker.ensureRetryQueue('sms', 1_260)).toBe('ready')
    expect(broker.warnings()).toEqual([])
  })

  it('do not count a retry queue that could not be declared', async () => {
    await declareClassicRetryQueue(1000)
    const { broker } = await start({ maxRetryQueues: 1 })
    expect(await broker.ensureRetryQueue('email', 1000)).toBe('unusable')
    expect(await broker.ensureRetryQueue('email', 2000)).toBe('ready')
    expect(await broker.ensureRetryQueue('email', 4000)).toBe('unusable')
  })

  it('let no retry queue be declared or used with declare: never; a missing one is still reported', async () => {
    const before = await start()
    await before.broker.ensureRetryQueue('email', 1000)
    await before.stop()
    const recorded = [1000, 2000].map((delayMs) => ({ queue: 'email', delayMs }))
    const test = await start({ declare: 'never' }, { recordedRetryQueues: () => recorded })
    const { broker, recorder } = test
    await recorder.until('onRetryQueueMissing', 1, 'email', 2000)
    expect(await broker.ensureRetryQueue('email', 1000)).toBe('unusable')
    expect(await broker.ensureRetryQueue('email', 4000)).toBe('unusable')
    expect(await exists(retryQueueName(2000))).toBe(false)
    expect(eventsOf(test)).toEqual(['onRetryQueueMissing'])
  })
})
