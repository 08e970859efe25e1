import { describe, expect, it, onTestFinished } from 'vitest'
import { visibilityFailure, workerDeathFailure } from '../../../src/job/retry/failure.ts'
import type { Job } from '../../../src/sdk/job.ts'
import type { JobContext } from '../../../src/sdk/worker/execution.ts'
import { newJob } from '../fake-source.ts'
import { conflict, elapse, useHttpWorkers } from '../http-worker.ts'
import { ScriptedTransport } from '../scripted-transport.ts'

const { startWorker } = useHttpWorkers()

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

type Body = Record<string, unknown>
type Fate = 'begun' | 'ended' | 'given back' | 'cancelled'

/** One hand-over of a job: what the server saw of it. */
interface Handed {
  readonly id: string
  readonly at: number
  fate?: Fate
  beganAt?: number
  givenBackAt?: number
}

/** A server of which several workers take jobs. It records each hand-over, and forgets no job. */
class Shop {
  readonly waiting: Job[] = []
  readonly handed: Handed[] = []
  readonly #open = new Map<string, { handed: Handed; job: Job }>()
  /** The ids of cancelled jobs, and whether a heartbeat has told so. */
  readonly #cancelled = new Map<string, boolean>()
  readonly wrong: string[] = []
  /** How long the answer takes when jobs are given back. */
  answerMs = 0
  onChange: (() => void)[] = []

  stock(count: number, over: Partial<Job> = {}): void {
    for (let i = 0; i < count; i++) this.waiting.push(newJob(over))
    this.#changed()
  }

  transport(extensions = ['batch_settle', 'nack_requeue']): ScriptedTransport {
    const transport = new ScriptedTransport()
    transport.extensions = extensions
    transport.scripts['/workers/fetch'] = async ({ count, wait_ms }, { signal }) => {
      if (this.waiting.length === 0 && Number(wait_ms) > 0)
        await this.#news(Number(wait_ms), signal)
      return { jobs: this.waiting.splice(0, Number(count)).map((job) => this.#handOver(job)) }
    }
    transport.scripts['/workers/ack'] = (body) => this.#settleOne('ack', body)
    transport.scripts['/workers/nack'] = (body) => this.#settleOne('nack', body)
    transport.scripts['/workers/settle'] = async ({ items }) => {
      const settle = (item: Body) => this.#settle(String(item['action']), item)
      const answers = (items as Body[]).map(settle)
      if ((items as Body[]).some(({ requeue }) => requeue)) await pause(this.answerMs)
      return { items: answers }
    }
    transport.scripts['/workers/heartbeat'] = ({ active_job_ids: ids }) => ({
      state: 'running',
      jobs_extended: (ids as string[]).filter((id) => this.#open.has(id)),
      cancelled_jobs: (ids as string[]).filter((id) => this.#tell(id)),
    })
    return transport
  }

  /** What a handler tells as soon as it begins. */
  begin({ job }: JobContext): void {
    const open = this.#open.get(job.id)?.handed
    // Nobody may have told the worker yet that its job is cancelled.
    if (open === undefined && this.#cancelled.get(job.id) === false) return
    if (open === undefined || open.fate !== undefined) this.wrong.push(`began ${job.id}`)
    else Object.assign(open, { fate: 'begun', beganAt: performance.now() })
  }

  cancel(id: string): void {
    const open = this.#open.get(id)
    if (open) open.handed.fate = 'cancelled'
    this.#open.delete(id)
    this.#cancelled.set(id, false)
  }

  /** Handed over, neither begun nor given back. */
  get unbegun(): Handed[] {
    return [...this.#open.values()].map(({ handed }) => handed).filter(({ fate }) => !fate)
  }

  endedIds(): string[] {
    return this.handed.filter(({ fate }) => fate === 'ended').map(({ id }) => id)
  }

  givenBack(): Handed[] {
    return this.handed.filter(({ fate }) => fate === 'given back')
  }

  #handOver(job: Job): Job {
    const handed = { id: job.id, at: performance.now() }
    this.handed.push(handed)
    this.#open.set(job.id, { handed, job })
    return job
  }

  #tell(id: string): boolean {
    if (!this.#cancelled.has(id)) return false
    this.#cancelled.set(id, true)
    return true
  }

  async #settleOne(action: string, body: Body): Promise<object> {
    const answer = this.#settle(action, body)
    if (body['requeue'] === true) await pause(this.answerMs)
    if (answer.status === 409) throw conflict('cancelled')
    return answer
  }

  #settle(action: string, { job_id, requeue }: Body): { status: number; error?: object } {
    const id = String(job_id)
    const open = this.#open.get(id)
    if (open === undefined) {
      const error = { code: 'invalid_request', message: 'not active', details: {} }
      return { status: 409, error }
    }
    this.#open.delete(id)
    const { handed, job } = open
    if (action === 'nack' && requeue === true) {
      if (handed.fate === 'begun') this.wrong.push(`gave ${id} back although it had begun`)
      Object.assign(handed, { fate: 'given back', givenBackAt: performance.now() })
      this.waiting.unshift(job)
      this.#changed()
    } else if (handed.fate === 'begun') handed.fate = 'ended'
    else this.wrong.push(`settled ${id}: ${handed.fate}`)
    return { status: 200 }
  }

  #news(ms: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(end, ms)
      function end(): void {
        clearTimeout(timer)
        resolve()
      }
      signal?.addEventListener('abort', end)
      this.onChange.push(end)
    })
  }

  #changed(): void {
    for (const wake of this.onChange.splice(0)) wake()
  }
}

function newShop(count = 0, over: Partial<Job> = {}): Shop {
  const shop = new Shop()
  shop.stock(count, over)
  onTestFinished(() => expect(shop.wrong).toEqual([]))
  return shop
}

/** A worker whose jobs take `ms.now`, which the test may change. */
async function startAt(shop: Shop, ms: { now: number }, over: object = {}) {
  const transport = shop.transport()
  const handler = async (ctx: JobContext) => {
    shop.begin(ctx)
    await pause(Number(ctx.meta['ms'] ?? ms.now))
  }
  const given = { concurrency: 2, gracePeriod: 10_000, ...over }
  const { worker, logger } = await startWorker(transport, handler, given)
  return { worker, logger, transport }
}

/** A worker with quick jobs behind it, so that it fetches ahead; the next ones are slow. */
async function quick(options: object = {}) {
  const shop = newShop(60)
  const ms = { now: 5 }
  const started = await startAt(shop, ms, options)
  await elapse(1_000)
  expect(shop.endedIds()).toHaveLength(60)
  ms.now = 5_000
  return { shop, ms, ...started }
}

/** The fetches for which there was no free slot. */
function aheadOf({ fetches }: ScriptedTransport): number {
  return fetches.filter(({ wait_ms }) => wait_ms === 0).length
}

/** With quick jobs behind it, some that were fetched ahead, and slow ones in its slots. */
async function withUnbegun(over: Partial<Job> = {}, options: object = {}, short = 0) {
  const { shop, ms, ...started } = await quick(options)
  shop.stock(12 - short, over)
  shop.stock(short, { timeout_ms: 2_000 })
  await elapse(1)
  expect(shop.unbegun.length).toBeGreaterThanOrEqual(8)
  return { shop, ms, ...started }
}

describe('a worker of quick jobs', () => {
  it('fetches what its slots take in 50 ms, and needs a request for many', async () => {
    const shop = newShop(400)
    const { transport } = await startAt(shop, { now: 5 })
    let most = 0
    for (let i = 0; i < 1_200; i++) {
      await elapse(1)
      most = Math.max(most, shop.unbegun.length)
    }
    expect(shop.endedIds()).toHaveLength(400)
    // Two slots, jobs of 5 ms: 20 in 50 ms.
    expect(most).toBeGreaterThan(10)
    expect(most).toBeLessThanOrEqual(20)
    expect(transport.fetches.length).toBeLessThan(60)
    expect(shop.givenBack()).toEqual([])
  })

  it('fetches no more than 100 jobs ahead, however quick they are', async () => {
    const shop = newShop(3_000)
    await startAt(shop, { now: 1 }, { concurrency: 50 })
    let most = 0
    for (let i = 0; i < 300; i++) {
      await elapse(1)
      most = Math.max(most, shop.unbegun.length)
    }
    expect(most).toBeGreaterThan(60)
    expect(most).toBeLessThanOrEqual(100)
  })

  it('fetches nothing ahead while the server does not say that it takes jobs back', async () => {
    const shop = newShop(50)
    const transport = shop.transport(['batch_settle'])
    const handler = async (ctx: JobContext) => {
      shop.begin(ctx)
      await pause(5)
    }
    await startWorker(transport, handler, { concurrency: 2 })
    await elapse(500)
    expect(shop.endedIds()).toHaveLength(50)
    for (const { count } of transport.fetches) expect(count).toBeLessThanOrEqual(2)
  })
})

describe('a worker of slow jobs', () => {
  it('fetches only for its free slots', async () => {
    const shop = newShop(50)
    const { transport } = await startAt(shop, { now: 200 })
    await elapse(3_000)
    expect(shop.endedIds().length).toBeGreaterThanOrEqual(26)
    for (const { count } of transport.fetches) expect(count).toBeLessThanOrEqual(2)
  })

  it('asks once for what could be fetched ahead while there is nothing', async () => {
    const shop = newShop(60)
    const ms = { now: 5 }
    const { transport } = await startAt(shop, ms)
    await elapse(1_000)
    ms.now = 5_000
    shop.stock(2)
    await elapse(1)
    const before = transport.fetches.length
    await elapse(4_000)
    expect(transport.fetches.length - before).toBeLessThanOrEqual(1)
  })
})

describe('jobs that were fetched ahead and get no slot', () => {
  it('are given back within a second, and taken again only when there are slots', async () => {
    const { shop, transport } = await withUnbegun()
    await elapse(998)
    expect(shop.givenBack()).toEqual([])
    await elapse(5)
    expect(shop.givenBack()).toHaveLength(10)
    expect(shop.unbegun).toEqual([])
    const before = transport.fetches.length
    await elapse(3_900)
    expect(transport.fetches).toHaveLength(before)
    await elapse(200)
    for (const { count } of transport.fetches.slice(before)) expect(count).toBeLessThanOrEqual(2)
    await elapse(40_000)
    expect(new Set(shop.endedIds()).size).toBe(72)
  })

  it('are fetched ahead again after many quick ones', async () => {
    const { shop, ms, transport } = await withUnbegun()
    await elapse(6_000)
    ms.now = 5
    shop.stock(400)
    await elapse(10_000)
    expect(shop.endedIds()).toHaveLength(472)
    expect(
      Math.max(...transport.fetches.slice(-10).map(({ count }) => Number(count))),
    ).toBeGreaterThan(2)
  })

  it.each([{ timeout_ms: 2_000 }, { visibility_timeout_ms: 2_000 }])(
    'are given back after a tenth of their %o',
    async (over) => {
      const { shop } = await withUnbegun(over)
      await elapse(150)
      expect(shop.givenBack()).toEqual([])
      await elapse(60)
      expect(shop.givenBack()).toHaveLength(10)
    },
  )

  it('are each given back in their own time', async () => {
    const { shop } = await withUnbegun({}, {}, 6)
    await elapse(150)
    expect(shop.givenBack()).toEqual([])
    await elapse(60)
    expect(shop.givenBack()).toHaveLength(6)
    await elapse(800)
    expect(shop.givenBack()).toHaveLength(10)
  })

  it('do not begin while giving them back is under way', async () => {
    const { shop, worker } = await withUnbegun()
    shop.answerMs = 6_000
    await elapse(15_000)
    expect(shop.givenBack().length).toBeGreaterThanOrEqual(10)
    void worker.stop()
  })

  it('are not fetched and given back again and again when few slots are left', async () => {
    const shop = newShop(400)
    const ms = { now: 20 }
    await startAt(shop, ms, { concurrency: 40 })
    await elapse(1_000)
    shop.stock(39, { meta: { ms: 25_000 } })
    await elapse(10)
    shop.stock(1_000)
    await elapse(20_000)
    expect(shop.givenBack().length).toBeGreaterThan(0)
    expect(shop.givenBack().length).toBeLessThan(110)
  })

  it.each(['quiet', 'stop'] as const)('are given back at once at %s', async (how) => {
    const { shop, worker } = await withUnbegun()
    const ended = worker[how]()
    await elapse(1)
    expect(shop.givenBack()).toHaveLength(10)
    shop.stock(5)
    await elapse(6_000)
    await ended
    expect(shop.endedIds()).toHaveLength(62)
    expect(shop.waiting).toHaveLength(15)
    if (how === 'stop') expect(await worker.stopped).toEqual({ abandoned: [] })
  })

  it('are given back when a poll brings them after quiet', async () => {
    const shop = newShop(60)
    const { worker } = await startAt(shop, { now: 5 })
    await elapse(1_000)
    worker.quiet()
    shop.stock(8)
    await elapse(10)
    expect([shop.givenBack().length, shop.waiting.length]).toEqual([8, 8])
  })

  it('never begin, and are not reported, if they are cancelled first', async () => {
    const shop = newShop(60)
    const ms = { now: 5 }
    const { logger } = await startAt(shop, ms, { heartbeatInterval: 100 })
    await elapse(1_000)
    ms.now = 500
    shop.stock(12)
    await elapse(1)
    const [first, ...others] = shop.unbegun
    for (const { id } of others) shop.cancel(id)
    await elapse(2_000)
    expect(shop.endedIds()).toHaveLength(63)
    expect(shop.endedIds()).toContain(first?.id)
    expect(logger.warn).not.toHaveBeenCalled()
    expect(logger.error).not.toHaveBeenCalled()
  })

  it('are named in heartbeats like those that run', async () => {
    const { shop, transport } = await withUnbegun({}, { heartbeatInterval: 100 })
    const waiting = shop.unbegun.map(({ id }) => id)
    await elapse(200)
    const { active_job_ids: named } = transport.heartbeats.at(-1) ?? {}
    expect(named).toEqual(expect.arrayContaining(waiting))
    expect(named).toHaveLength(waiting.length + 2)
  })
})

const LAST = { attempt: 3, max_attempts: 3 }
const LOST = { attempt: 2, max_attempts: 5, error: { ...visibilityFailure() } }
const FAILED = { attempt: 2, max_attempts: 5, error: { code: 'handler_error' } }

describe('a job that cannot bear to lose an attempt, as all do that a dead worker had', () => {
  it.each([
    ['is its only one', { max_attempts: 1 }],
    ['is its last one', LAST],
    ['comes after a lost one', LOST],
    ['comes after that of a dead worker', { ...LOST, error: { ...workerDeathFailure('w') } }],
  ])('does not wait for a slot if the attempt %s', async (_, over) => {
    const { shop, transport } = await quick()
    shop.stock(12, over)
    await elapse(2)
    expect(shop.unbegun).toEqual([])
    expect([shop.givenBack().length, shop.waiting.length]).toEqual([10, 10])
    const before = transport.fetches.length
    await elapse(4_900)
    expect(transport.fetches).toHaveLength(before)
    await elapse(30_000)
    expect(shop.endedIds()).toHaveLength(72)
  })

  it('makes no loop of fetching and giving back if all are such: one more fetch a second', async () => {
    const shop = newShop(2_500, LAST)
    const { transport } = await startAt(shop, { now: 5 })
    await elapse(2_000)
    const [before, givenBack] = [aheadOf(transport), shop.givenBack().length]
    expect(givenBack).toBeGreaterThan(0)
    expect(givenBack).toBeLessThanOrEqual(26)
    await elapse(3_000)
    expect(shop.endedIds().length).toBeGreaterThan(1_500)
    expect(shop.givenBack().length - givenBack).toBeLessThanOrEqual(3)
    expect(aheadOf(transport) - before).toBeLessThanOrEqual(3)
  })

  it('does not end it for the others if it is one of many', async () => {
    const { shop, ms, transport } = await quick()
    ms.now = 5
    for (let i = 0; i < 20; i++) {
      shop.stock(99)
      shop.stock(1, LAST)
    }
    const before = transport.fetches.length
    await elapse(8_000)
    expect(new Set(shop.endedIds()).size).toBe(2_060)
    // Without any of them: 200.
    expect(transport.fetches.length - before).toBeLessThan(500)
    expect(shop.givenBack().length).toBeLessThanOrEqual(40)
  })

  it('leaves others waiting that can', async () => {
    const { shop, ms } = await quick()
    ms.now = 5
    const last = new Set<string>()
    for (let i = 0; i < 60; i++) {
      shop.stock(9, FAILED)
      shop.stock(1, LAST)
      last.add(shop.waiting.at(-1)?.id ?? '')
    }
    await elapse(10_000)
    expect(new Set(shop.endedIds()).size).toBe(660)
    const waits = (isLast: boolean) =>
      shop.handed
        .slice(60)
        .filter(({ id }) => last.has(id) === isLast)
        .map(({ at, beganAt, givenBackAt }) => (beganAt ?? givenBackAt ?? 0) - at)
    expect(Math.max(...waits(true))).toBeLessThanOrEqual(1)
    expect(Math.max(...waits(false))).toBeGreaterThanOrEqual(5)
    const lastIds = [...last]
    expect(shop.givenBack().length).toBeGreaterThan(0)
    expect(lastIds).toEqual(expect.arrayContaining(shop.givenBack().map(({ id }) => id)))
  })

  it('is no reason to fetch nothing ahead later', async () => {
    const { shop, ms, transport } = await quick()
    ms.now = 5
    shop.stock(40, LAST)
    await elapse(1)
    shop.stock(2_000)
    const before = transport.fetches.length
    await elapse(48)
    for (const { count } of transport.fetches.slice(before)) expect(count).toBeLessThanOrEqual(2)
    await elapse(1_000)
    const givenBack = shop.givenBack().length
    await elapse(2_000)
    expect(
      Math.max(...transport.fetches.slice(-10).map(({ count }) => Number(count))),
    ).toBeGreaterThan(5)
    expect(shop.givenBack()).toHaveLength(givenBack)
  })

  it('may wait if its last attempt was not lost, but failed', async () => {
    const { shop } = await quick()
    shop.stock(12, FAILED)
    await elapse(2)
    expect(shop.unbegun).toHaveLength(10)
  })
})

it('two workers, jobs of any duration, some cancelled: each job runs once or is cancelled, none waits long', async () => {
  let seed = 7
  const random = () => {
    seed = (seed * 48_271) % 2_147_483_647
    return seed / 2_147_483_647
  }
  const shop = newShop()
  shop.answerMs = 30
  const ms = { now: 5 }
  const given = { heartbeatInterval: 100 }
  await startAt(shop, ms, { ...given, workerId: 'a', concurrency: 3 })
  await startAt(shop, ms, { ...given, workerId: 'b', concurrency: 10 })
  let stocked = 0
  const cancelled = new Set<string>()
  for (let turn = 0; turn < 60; turn++) {
    ms.now = random() < 0.7 ? 1 + random() * 10 : random() * 3_000
    const count = Math.floor(random() * 200)
    shop.stock(count)
    stocked += count
    await elapse(random() * 300)
    const one = shop.unbegun[0]
    if (one && random() < 0.5) {
      shop.cancel(one.id)
      cancelled.add(one.id)
    }
  }
  ms.now = 1
  await elapse(60_000)
  const ended = shop.endedIds()
  expect(new Set(ended).size).toBe(ended.length)
  expect(ended.length + cancelled.size).toBe(stocked)
  expect(cancelled.size).toBeGreaterThan(5)
  expect(shop.givenBack().length).toBeGreaterThan(10)
  const waits = shop.handed.map(
    ({ at, beganAt, givenBackAt }) => (beganAt ?? givenBackAt ?? at) - at,
  )
  expect(Math.max(...waits)).toBeLessThan(1_100)
})
