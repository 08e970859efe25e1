import { describe, expect, it, onTestFinished } from 'vitest'
import { NativeWorker } from '../../src/worker/index.ts'
import { freshQueue, gatewayForAll, untilState } from '../operations/harness.ts'
import { connectControl } from '../support/gateway/control.ts'

const DEAD_LETTERS = 'ojs.system.dead-letters'
const TTL_MS = 500

describe.each(['classic', 'quorum'] as const)(
  'control messages that a policy removes from a %s control queue',
  (type) => {
    const { vhost, gateway } = gatewayForAll({ OJS_QUEUE_TYPE: type })

    async function client() {
      const opened = await connectControl(vhost.url)
      onTestFinished(() => opened.close())
      const depth = async (queue: string) => (await opened.channel.checkQueue(queue)).messageCount
      return { ...opened, depth }
    }

    /** Stops the gateway and limits every control queue by a policy. */
    async function stopLimited(definition: object) {
      await gateway.stop()
      await vhost.setPolicy('limit', '^ojs\\.queue\\.control\\.', definition)
      const { channel } = await client()
      // Policies are applied with a delay, and no message may come before that.
      await expect
        .poll(() => vhost.queue('ojs.queue.control.default'))
        .toMatchObject({
          policy: 'limit',
        })
      return channel
    }

    const metric = async (name: string) =>
      String((await gateway.request('GET', '/metrics')).body)
        .split('\n')
        .filter((line) => line.startsWith(name))

    it('are handled if they are reports that expired by a TTL', async () => {
      const queue = freshQueue()
      const { id: good } = (await gateway.push(queue)).body.job
      const options = { retry: { max_attempts: 1 } }
      const { id: bad } = (await gateway.push(queue, { type: 'test.bad', options })).body.job
      await stopLimited({ 'message-ttl': TTL_MS })
      const worker = new NativeWorker({
        url: vhost.url,
        queues: [queue],
        queueType: type,
        answerTimeoutMs: 50,
        handleSignals: false,
        logger: false,
      })
      const ran: string[] = []
      worker.register('test.job', ({ job }) => {
        ran.push(job.id)
        return { sent: 3 }
      })
      worker.register('test.bad', ({ job }) => {
        ran.push(job.id)
        throw new Error('no route')
      })
      await worker.start()
      await expect.poll(() => new Set(ran)).toEqual(new Set([good, bad]))
      const { depth } = await client()
      await expect.poll(() => depth(`ojs.queue.${queue}`)).toBe(0)
      await worker.stop()
      await expect.poll(() => depth(`ojs.queue.control.${queue}`)).toBe(0)
      expect(await depth(DEAD_LETTERS)).toBeGreaterThan(0)

      await gateway.restart()
      const done = await untilState(gateway, good, 'completed')
      expect(done).toMatchObject({ attempt: 1, result: { sent: 3 } })
      const failed = await untilState(gateway, bad, 'discarded')
      expect(failed.error).toMatchObject({ message: 'no route' })
      await expect.poll(() => depth(DEAD_LETTERS)).toBe(0)
      expect(await metric('ojs_control_dead_total')).toContainEqual(
        expect.stringMatching(/\{type="ojs.control.report",reason="expired"\} [1-9]/),
      )
    })

    // The gateway's quorum queues reject publishes beyond a limit, so the worker keeps the message.
    it.runIf(type === 'classic')(
      'are handled after a length limit dropped them, except heartbeats and questions',
      async () => {
        const queue = freshQueue()
        const push = async (): Promise<string> => (await gateway.push(queue)).body.job.id
        const [reported, beaten, cancelled] = [await push(), await push(), await push()]
        await stopLimited({ 'max-length': 1 })
        const { channel, say, depth } = await client()
        for (let i = 0; i < 2; i++) {
          const jobMessage = await channel.get(`ojs.queue.${queue}`)
          if (jobMessage !== false) channel.ack(jobMessage)
        }
        const event = { job_id: reported, generation: 0, attempt: 1, event: 'completed' }
        await say(queue, 'ojs.control.report', { worker_id: 'w', events: [event] })
        await say(queue, 'ojs.control.heartbeat', { worker_id: 'w', job_ids: [beaten] })
        const asker = { replyTo: 'nobody', correlationId: '1' }
        await say(queue, 'ojs.control.info', { job_id: reported }, asker)
        await say(queue, 'ojs.control.cancel', { job_id: cancelled })
        await say(queue, 'ojs.control.cancel', 'malformed')
        await expect.poll(() => depth(DEAD_LETTERS)).toBe(4)

        await gateway.restart()
        await untilState(gateway, reported, 'completed')
        await untilState(gateway, cancelled, 'cancelled')
        await expect.poll(() => depth(DEAD_LETTERS)).toBe(0)
        expect((await gateway.get(beaten)).body.job).toMatchObject({
          state: 'available',
          attempt: 0,
        })
        const dead = await metric('ojs_control_dead_total')
        for (const kind of ['report', 'heartbeat', 'info', 'cancel']) {
          expect(dead).toContain(
            `ojs_control_dead_total{type="ojs.control.${kind}",reason="maxlen"} 1`,
          )
        }
        // The malformed message was counted when it was consumed, and not again as a dead letter.
        expect(await metric('ojs_control_malformed_total')).toEqual([
          'ojs_control_malformed_total{type="ojs.control.cancel",reason="invalid_request"} 1',
        ])
      },
    )
  },
)
