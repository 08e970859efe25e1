import { join } from 'node:path'
import { v7 } from 'uuid'
import { describe, expect, test } from 'vitest'
import { DEBIAN_PYTHON } from '../../scripts/test/environment.mjs'
import { ROOT } from '../sdk/bundle.ts'
import { createVhost } from '../support/broker/rabbit.ts'
import { TcpProxy } from '../support/broker/tcp-proxy.ts'
import { startTestGateway } from '../support/gateway/in-process.ts'
import {
  asClient,
  Example,
  expectKeptDead,
  keptDead,
  publishJob,
  publishText,
  runJob,
  STOP_MS,
  stageForAll,
  withExample,
} from './harness.ts'

const WORKER_ID = 'python-1'
const stage = stageForAll()

const FOLDER = join(ROOT, 'examples', 'python')

function startPython(
  env: Readonly<Record<string, string>> = stage.env(),
  args: readonly string[] = [join(FOLDER, 'worker.py')],
): Example {
  const settings = { WORKER_ID, HEARTBEAT_S: '0.2', PYTHONDONTWRITEBYTECODE: '1' }
  return new Example(DEBIAN_PYTHON, args, { ...settings, ...env })
}

/** The example with another handler, which returns the value of the Python expression `args[0]`. */
const WITH_ANY_RESULT = `
import sys
sys.path.insert(0, ${JSON.stringify(FOLDER)})
import worker
class Fickle(dict):
    def items(self):
        self.asked = getattr(self, 'asked', 0) + 1
        return {'asked': self.asked if self.asked < 2 else {1}}.items()
worker.HANDLERS['any.result'] = lambda run: eval(run.job['args'][0])
worker.main()
`

/** Handlers that end as no `except Exception` hears, that hang, that change their job, and that take longer than their lease. */
const WITH_HOSTILE_HANDLERS = `
import asyncio, sys, time
sys.path.insert(0, ${JSON.stringify(FOLDER)})
import worker
class Mute(Exception):
    def __str__(self): raise ValueError('no text')
class Shy(type):
    @property
    def __name__(cls): raise ValueError('no name')
class Hidden(Exception, metaclass=Shy): pass
def bad(run):
    name = run.job['args'][0]
    if name == 'exit': sys.exit('bye')
    if name == 'cancelled': raise asyncio.CancelledError()
    if name == 'interrupt': raise KeyboardInterrupt()
    if name == 'mute': raise Mute()
    if name == 'hidden': raise Hidden('shy')
    if name == 'nameless': raise type('', (Exception,), {})('no name')
    if name == 'spoil':
        run.job['args'].append({1})
        run.job['id'] = None
        raise ValueError('spoilt')
    if name == 'long': raise ValueError('\\ud800' + 'x' * 8_000_000)
worker.HANDLERS['bad'] = bad
worker.HANDLERS['deaf'] = lambda run: time.sleep(run.job['args'][0])
worker.main()
`

function nestedList(depth: number): string {
  return '['.repeat(depth) + ']'.repeat(depth)
}

/** The worker as the gateway lists it. */
async function listed(): Promise<Record<string, unknown>> {
  const { items } = await stage.client().workers.list()
  return { ...items.find(({ id }) => id === WORKER_ID) }
}

/** The cancelled jobs that a new worker of the queue is told of. */
function tombstones(): Promise<string[]> {
  const question = { queues: ['email'] }
  return asClient(
    stage,
    async (client) => (await client.ask('default', 'ojs.control.sync', question)).tombstones,
  )
}

/**
 * Takes the redelivered job message as another worker, which is told to drop it because the job runs
 * elsewhere.
 */
async function dropElsewhere(id: string): Promise<void> {
  await asClient(stage, async (client) => {
    const isBack = async () => (await client.channel.checkQueue('ojs.queue.email')).messageCount
    await expect.poll(isBack).toBe(1)
    const message = await client.channel.get('ojs.queue.email')
    if (!message) throw new Error('somebody else has it')
    const jobMessage = { job_id: id, generation: 0, attempt: 1, worker_id: 'other-1' }
    // Asks repeatedly until it is answered, because the gateway has lost its connections, too.
    const { decision } = await client.ask('email', 'ojs.control.claim', jobMessage, 'direct')
    expect(decision).toBe('drop')
    client.channel.ack(message)
  })
}

const endless = { type: 'report.build', args: [3600], state: 'active' }

describe('the Python worker, written from docs/reference/control-protocol.md', () => {
  test('completes jobs, has failed ones retried, and discards permanent failures', async () => {
    await withExample(startPython(), async (example) => {
      const sent = await runJob(stage, example, { type: 'email.send', args: ['a@example.com'] })
      expect(sent).toMatchObject({ attempt: 1, result: { delivered: 'a@example.com', attempt: 1 } })

      const again = await runJob(stage, example, { type: 'email.send', args: ['a@flaky.example'] })
      expect(again).toMatchObject({ attempt: 2, result: { attempt: 2 } })

      const never = { type: 'email.send', args: ['nobody'], state: 'discarded' }
      expect(await runJob(stage, example, never)).toMatchObject({
        attempt: 1,
        error: { type: 'Permanent', message: "'nobody' is no address" },
      })
    })
  })

  test('fails a job whose result JSON or the gateway cannot hold', async () => {
    await withExample(startPython(stage.env(), ['-c', WITH_ANY_RESULT]), async (example) => {
      const run = (result: string, state: string) =>
        runJob(stage, example, { type: 'any.result', args: [result], state })
      const tooDeep = "eval('['*40 + ']'*40)"
      for (const bad of ["float('nan')", '[2**53]', '{1}', 'b"x"', tooDeep, "'é' * 2**19"])
        expect(await run(bad, 'discarded')).toMatchObject({
          attempt: 1,
          error: { type: 'ResultError', retryable: false },
        })
      // Another thread of the handler's may go on changing what it has returned.
      expect(await run('Fickle(a=1)', 'completed')).toMatchObject({ result: { asked: 1 } })
      const deep = "eval('['*31 + ']'*31)"
      // Of 1,048,576 bytes, two of them quotes: as JSON has them, not as escapes.
      const large = "'é' * (2**19 - 1)"
      for (const good of ['2**53 - 1', '[None, True, {"a": 1.5}]', deep, large])
        await run(good, 'completed')
    })
  })

  test('fails a job whose handler exits, is cancelled, or raises what has no text', async () => {
    await withExample(startPython(stage.env(), ['-c', WITH_HOSTILE_HANDLERS]), async (example) => {
      const once = { queue: 'email', retry: { maxAttempts: 1 } }
      const errors = {
        exit: { type: 'SystemExit', message: 'bye' },
        cancelled: { type: 'CancelledError', message: 'failed' },
        interrupt: { type: 'KeyboardInterrupt' },
        spoil: { type: 'ValueError', message: 'spoilt' },
        mute: { type: 'Mute', message: 'its text cannot be made: ValueError' },
        hidden: { type: 'Hidden', message: 'shy' },
        nameless: { type: 'Exception', message: 'no name' },
        long: { type: 'ValueError', message: `?${'x'.repeat(9_999)}` },
      }
      const client = stage.client()
      const jobs = Object.keys(errors).map((args) => ({ type: 'bad', args, options: once }))
      const ids = (await client.enqueueBatch(jobs)).map(({ id }) => id)
      for (const [i, error] of Object.values(errors).entries()) {
        const state = async () => (await client.getJob(ids[i] ?? '')).state
        await example.until(async () => (await state()) === 'discarded')
        const expected = { code: 'handler_error', ...error }
        expect(await client.getJob(ids[i] ?? '')).toMatchObject({ attempt: 1, error: expected })
      }
    })
  })

  test('takes no job while handlers that ignore their timeout hold its slots, and ends at SIGTERM', async () => {
    const env = { ...stage.env(), CONCURRENCY: '2' }
    await withExample(startPython(env, ['-c', WITH_HOSTILE_HANDLERS]), async (example) => {
      const client = stage.client()
      const options = { queue: 'email', timeoutMs: 200, retry: { maxAttempts: 1 } }
      const enqueue = async (seconds: number) =>
        (await client.enqueue('deaf', [seconds], options)).id
      const ended = async (id: string) => (await client.getJob(id)).state === 'discarded'
      const [short, long] = [await enqueue(4), await enqueue(60)]
      await example.until(async () => (await ended(short)) && (await ended(long)))
      const ids = [await enqueue(0), await enqueue(0)]
      const consumers = async () => (await stage.vhost.queue('ojs.queue.email'))?.['consumers']
      await example.until(async () => (await consumers()) === 0)
      expect(example.output.match(/^started /gm)).toHaveLength(2)
      // One of the two returns: the jobs run one after the other, although the other one still hangs.
      for (const id of ids)
        await example.until(async () => (await client.getJob(id)).state === 'completed')
    })
  })

  test('sends three heartbeats in a lease that is shorter than its interval', async () => {
    const env = { ...stage.env(), HEARTBEAT_S: '60' }
    await withExample(startPython(env), async (example) => {
      const options = { queue: 'email', visibilityTimeoutMs: 2_000 }
      const { id } = await stage.client().enqueue('report.build', [5], options)
      await example.until(async () => (await stage.client().getJob(id)).state === 'completed')
      const job = await stage.client().getJob(id)
      expect(job).toMatchObject({ attempt: 1 })
      expect(job.errors ?? []).toEqual([])
    })
  })

  test('sends heartbeats for its running jobs, and aborts a cancelled one', async () => {
    await withExample(startPython(), async (example) => {
      const { id } = await runJob(stage, example, endless)
      const ids = async () => JSON.stringify((await listed())['active_job_ids'])
      await example.until(async () => (await ids()) === JSON.stringify([id]))
      const { last_heartbeat_at: before } = await listed()
      await example.until(async () => (await listed())['last_heartbeat_at'] !== before)
      expect(await listed()).toMatchObject({ state: 'running', queues: ['email'], concurrency: 5 })

      expect(await stage.client().cancelJob(id)).toMatchObject({ state: 'cancelled' })
      await example.until(() => example.has(`cancelled ${id}`))
      expect(await stage.client().getJob(id)).toMatchObject({ state: 'cancelled', attempt: 1 })
      // The worker reports the dropped delivery; else the gateway would tell every new worker of the job.
      const { id: next } = await runJob(stage, example, endless)
      await stage.client().cancelJob(next)
      await example.until(async () => (await tombstones()).length === 0)
    })
  })

  test('runs a pushed job whose id had been cancelled while it was unknown', async () => {
    const [id, other] = [v7(), v7()]
    await asClient(stage, async (client) => {
      for (const job_id of [id, other]) await client.say('email', 'ojs.control.cancel', { job_id })
    })
    await expect.poll(async () => (await tombstones()).length).toBe(2)
    await withExample(startPython(), async (example) => {
      await example.until(async () => (await listed())['state'] === 'running')
      const body = { id, type: 'email.send', args: ['a@example.com'], options: { queue: 'email' } }
      await stage.gateway.request('POST', '/ojs/v1/jobs', body)
      await example.until(async () => (await stage.client().getJob(id)).state === 'completed')
      // The cancellation of the other id is still in force, so its message is dropped.
      await publishJob(stage, { id: other, queue: 'email' })
      await runJob(stage, example, { type: 'email.send', args: ['b@example.com'] })
      await expect(stage.client().getJob(other)).rejects.toMatchObject({ status: 404 })
    })
  })

  test('discards an expired job, and rejects messages with invalid members', async () => {
    await withExample(startPython(), async (example) => {
      const expired = await publishJob(stage, { expires_at: '2026-01-01T00:00:00Z' })
      const unreadable = [{ expires_at: 'soon' }, { timeout_ms: '5' }, { x_ojs_generation: 'x' }]
      for (const members of unreadable) await publishJob(stage, members)
      const last = await publishJob(stage, { expires_at: null, timeout_ms: null })
      await example.until(() => example.has(`started ${last} 1`))
      expect(example.output.match(/^started /gm)).toHaveLength(1)
      const discarded = { state: 'discarded', attempt: 0 }
      await expect.poll(() => stage.client().getJob(expired)).toMatchObject(discarded)
      const { jobs } = await stage.client().deadLetters.list()
      expect(jobs.map(({ id }) => id)).not.toContain(expired)
    })
  })

  test('rejects what it cannot read or could not report, and goes on', async () => {
    const job = (members: string) => `{"id":"${v7()}","type":"email.send",${members}}`
    const nested = (depth: number) => job(`"args":["a@example.com",${nestedList(depth)}]`)
    const poison = [
      '['.repeat(100_000),
      ...[200, 600, 980, 5_000].map(nested),
      ...['timeout_ms', 'visibility_timeout_ms', 'x_ojs_generation'].flatMap((name) =>
        ['9'.repeat(400), '-5', 'true'].map((value) => job(`"args":[],"${name}":${value}`)),
      ),
      ...['', '\\ud800', 'x'.repeat(256)].map(
        (id) => `{"id":"${id}","type":"email.send","args":[]}`,
      ),
    ]
    await withExample(startPython(), async (example) => {
      const before = await keptDead(stage)
      for (const content of poison) await publishText(stage, content)
      await publishText(stage, nested(60))
      const last = await publishJob(stage, {})
      await example.until(() => example.has(`started ${last} 1`))
      expect(example.output.match(/^started /gm)).toHaveLength(2)
      await expect.poll(() => keptDead(stage)).toBe(before + poison.length)
    })
  })

  test('reports headers of a native job that fails, so that its retry has the tags', async () => {
    await withExample(startPython(), async (example) => {
      const odd = { 'x-large': 2 ** 60, 'x-blob': Buffer.of(255), 'x-list': [1] }
      const headers = { 'x-ojs-tags': 'a,b', 'x-ojs-max-attempts': 7, ...odd }
      const id = await publishJob(stage, { args: ['a@flaky.example'] }, headers)
      const found = () => stage.client().getJob(id)
      await example.until(async () => (await found().catch(() => null))?.state === 'completed')
      expect(await found()).toMatchObject({ attempt: 2, tags: ['a', 'b'], max_attempts: 7 })
    })
  })

  test('dead-letters a failed native job that is too large for a report', async () => {
    const example = startPython()
    await withExample(example, () => expectKeptDead(stage, example))
  })

  test('gives a running job back after the grace period of its shutdown', async () => {
    const example = startPython({ ...stage.env(), GRACE_S: '0.1' })
    const { id } = await runJob(stage, example, endless)
    expect(await example.stop(), example.output).toBe(0)
    await expect.poll(async () => (await stage.client().getJob(id)).state).toBe('available')
    expect(await stage.client().getJob(id)).toMatchObject({ attempt: 0 })
    await stage.client().cancelJob(id)
  })

  test('ends by itself while its broker hangs, and at once by a second signal', async () => {
    for (const [graceS, code] of [
      ['0.5', 0],
      ['3600', null],
    ] as const) {
      const proxy = await TcpProxy.start(stage.vhost.url)
      const env = { ...stage.env(), AMQP_URL: proxy.url, GRACE_S: graceS }
      const example = startPython(env)
      try {
        const { id } = await runJob(stage, example, endless)
        for (const direction of ['to-broker', 'to-gateway'] as const) proxy.hold(direction)
        const begun = performance.now()
        const ended = example.stop()
        // Not at once: two of the same signal may count as one.
        const again = code === null ? setInterval(() => void example.stop(), 200) : undefined
        expect(await ended, example.output).toBe(code)
        clearInterval(again)
        // `stop` did not have to kill it.
        expect(performance.now() - begun).toBeLessThan(STOP_MS)
        await stage.client().cancelJob(id)
      } finally {
        await example.kill()
        await proxy.stop()
      }
    }
  })

  test('does not consume a paused queue, also after a lost connection, until it is resumed', async () => {
    await withExample(startPython(), async (example) => {
      const { id } = await runJob(stage, example, endless)
      const options = { pending: true }
      const job = { type: 'email.send', args: ['late@example.com'], options }
      const waiting = (await stage.gateway.push('email', job)).body.job.id
      await stage.client().queues.pause('email')
      await stage.client().activateJob(waiting)
      const consumers = async () => (await stage.vhost.queue('ojs.queue.email'))?.['consumers']
      await example.until(async () => (await consumers()) === 0)
      await stage.vhost.closeConnections()
      await example.until(() => example.output.includes('connecting again'))
      await example.until(async () => (await listed())['state'] === 'running')
      await stage.client().cancelJob(id)
      await example.until(() => example.has(`cancelled ${id}`))
      expect(example.output.match(/^started /gm)).toHaveLength(1)
      expect(await stage.client().getJob(waiting)).toMatchObject({ state: 'available' })

      await stage.client().queues.resume('email')
      await example.until(async () => {
        return (await stage.client().getJob(waiting)).state === 'completed'
      })
    })
  })

  test('completes a running job after a lost connection without running it again', async () => {
    await withExample(startPython(), async (example) => {
      const client = stage.client()
      const { id } = await client.enqueue('report.build', [4], { queue: 'email' })
      await example.until(() => example.has(`started ${id} 1`))
      await stage.vhost.closeConnections()
      await example.until(async () => (await client.getJob(id)).state === 'completed')
      await example.until(() => example.output.includes('connecting again'))
      expect(await client.getJob(id)).toMatchObject({ attempt: 1, result: { pages: 4 } })
      expect(example.output.match(/^started /gm)).toHaveLength(1)
    })
  })

  test('holds the next attempt of a job that it still runs, after its lease was lost', async () => {
    await withExample(startPython(), async (example) => {
      const client = stage.client()
      const options = { queue: 'email', visibilityTimeoutMs: 3_000 }
      const { id } = await client.enqueue('report.build', [6], options)
      await example.until(() => example.has(`started ${id} 1`))
      example.freeze()
      await stage.vhost.closeConnections()
      await dropElsewhere(id)
      await example.until(async () => (await client.getJob(id)).state === 'available')
      example.thaw()
      await example.until(async () => (await client.getJob(id)).state === 'completed', 60_000)
      expect(await client.getJob(id)).toMatchObject({ result: { pages: 6 } })
      expect(example.output.match(/^started /gm)).toHaveLength(2)
      const unsettled = async () => (await stage.vhost.queue('ojs.queue.email'))?.['messages']
      await example.until(async () => (await unsettled()) === 0)
    })
  })

  test('runs the job again as attempt 2 after it was killed', async () => {
    const killed = startPython()
    const { id } = await runJob(stage, killed, endless)
    await killed.kill()
    await withExample(startPython(), async (example) => {
      await example.until(() => example.has(`started ${id} 2`))
      await stage.client().cancelJob(id)
      await example.until(() => example.has(`cancelled ${id}`))
    })
  })

  test('consumes again after its queue was deleted', async () => {
    await withExample(startPython(), async (example) => {
      const job = { type: 'email.send', args: ['a@example.com'] }
      await runJob(stage, example, job)
      await stage.vhost.deleteQueue('ojs.queue.email')
      await example.until(() => example.output.includes('a queue was deleted'))
      await runJob(stage, example, job)
    })
  })

  test('keeps connecting until a gateway has declared its queue', async () => {
    const vhost = await createVhost()
    try {
      await withExample(startPython({ AMQP_URL: vhost.url }), async (example) => {
        await example.until(() => example.output.includes('connecting again'))
        const gateway = await startTestGateway(vhost.url)
        try {
          const job = { type: 'email.send', args: ['a@example.com'] }
          const { id } = (await gateway.push('email', job)).body.job
          const state = async () => (await gateway.get(id)).body.job.state
          await example.until(async () => (await state()) === 'completed')
        } finally {
          await gateway.destroy()
        }
      })
    } finally {
      await vhost.drop()
    }
  })
})
