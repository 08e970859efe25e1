import { expect, onTestFinished, test } from 'vitest'
import { createVhost } from '../../support/broker/rabbit.ts'
import { jobOf } from '../../support/gateway/client.ts'
import { Gateway } from '../../support/gateway/gateway.ts'
import { eventually } from '../../support/gateway/in-process.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers are read as a client would, member by member
type Json = any

const LIMITS = { a: 1, b: 2, c: 3 } as const
const KEYS = Object.keys(LIMITS) as (keyof typeof LIMITS)[]
const JOBS = 45
const KILLS = 3

test.each(['classic', 'quorum'])(
  'kill -9 of a gateway that holds jobs back loses none and starts never too many, profile %s',
  async (queueType) => {
    const vhost = await createVhost()
    onTestFinished(() => vhost.drop())
    const env = { OJS_QUEUE_TYPE: queueType }
    const gateway = await Gateway.start({ amqpUrl: vhost.url, env })
    onTestFinished(() => gateway.dispose())
    await gateway.untilHealthy()
    const ids: string[] = []
    for (let i = 0; i < JOBS; i++) {
      const key = KEYS[i % KEYS.length] ?? 'a'
      const options = { queue: `q-${i % 2}`, concurrency: { key, limit: LIMITS[key] } }
      ids.push(jobOf(await gateway.client.push({ type: key, args: [], options })).id)
    }
    const running = new Map<string, keyof typeof LIMITS>()
    let done = 0
    let kills = 0
    while (done < JOBS) {
      const { status, body } = await gateway.client
        .fetch({ queues: ['q-0', 'q-1'], count: 10, wait_ms: 500, worker_id: 'w' })
        .catch(() => ({ status: 0, body: null as Json }))
      for (const { id, type } of status === 200 ? (body as Json).jobs : []) running.set(id, type)
      for (const key of KEYS) {
        const now = [...running.values()].filter((one) => one === key).length
        expect(now, key).toBeLessThanOrEqual(LIMITS[key])
      }
      const [first] = running.keys()
      if (first === undefined) continue
      // Killed with jobs that run, jobs that are held back, and messages on their way.
      const isDue = kills < KILLS && done >= ((kills + 1) * JOBS) / (KILLS + 1)
      const acked = gateway.client.ack({ job_id: first }).catch(() => null)
      if (isDue) {
        kills += 1
        await gateway.kill9()
        await gateway.restart(env)
        await gateway.untilHealthy()
      }
      await acked
      await eventually(async () => {
        if (jobOf(await gateway.client.get(first))['state'] === 'completed') return true
        return (await gateway.client.ack({ job_id: first })).status === 200
      })
      running.delete(first)
      done += 1
    }
    const states = await Promise.all(
      ids.map(async (id) => jobOf(await gateway.client.get(id))['state']),
    )
    expect(new Set(states)).toEqual(new Set(['completed']))
    expect(kills).toBe(KILLS)
  },
)
