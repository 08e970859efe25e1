import { describe, expect, test, vi } from 'vitest'
import { Slots } from '../../src/sdk/async/semaphore.ts'
import {
  type Fetch,
  HttpTransport,
  OJSClient,
  OJSTransportError,
  OJSWorker,
} from '../../src/sdk/index.ts'

const AT_ONCE = 128

/** A `fetch` whose requests stay open until the test calls their `open` function. */
function heldFetch() {
  const paths: string[] = []
  const open: (() => void)[] = []
  const fetch: Fetch = (url, { signal, body = '{}' }) =>
    new Promise((resolve, reject) => {
      const job = { ...JSON.parse(body), queue: 'default', state: 'available', attempt: 0 }
      const text = JSON.stringify({ job, jobs: [], state: 'running' })
      paths.push(url.slice(url.indexOf('/ojs/v1') + 7))
      open.push(() =>
        resolve({ status: 200, headers: new Headers(), text: () => Promise.resolve(text) }),
      )
      signal.addEventListener('abort', () => reject(new Error('aborted')))
    })
  return { fetch, paths, open }
}

const turn = () => new Promise((resolve) => setImmediate(resolve))

describe('HttpTransport with more requests than it sends at once', () => {
  test('keeps at most 128 requests open, and every enqueue gets its own answer', async () => {
    const { fetch, paths, open } = heldFetch()
    const client = new OJSClient({ url: 'http://h', fetch })
    const enqueued = Array.from({ length: 5_000 }, (_, i) => client.enqueue('t', [i]))
    await turn()
    expect(paths).toHaveLength(AT_ONCE)
    for (let answered = 0; answered < 5_000; answered += 1) {
      open[answered]?.()
      if (answered % 50 === 0) await turn()
      expect(paths.length - (answered + 1)).toBeLessThanOrEqual(AT_ONCE)
    }
    const jobs = await Promise.all(enqueued)
    expect(jobs.map(({ args }) => args[0])).toEqual(enqueued.map((_, i) => i))
  })

  test("starts a request's timeout when it is sent, not while it waits for its turn", async () => {
    const { fetch, paths, open } = heldFetch()
    const transport = new HttpTransport({ url: 'http://h', fetch, retry: false })
    const get = (path: string, timeout: number) =>
      transport.request({ method: 'GET', path, timeout })
    const first = Array.from({ length: AT_ONCE }, () => get('/jobs/1', 60_000))
    const late = get('/jobs/2', 20)
    await new Promise((resolve) => setTimeout(resolve, 60))
    expect(paths).not.toContain('/jobs/2')
    open[0]?.()
    await first[0]
    await turn()
    expect(paths.at(-1)).toBe('/jobs/2')
    await expect(late).rejects.toMatchObject({ kind: 'timeout', attempts: 1 })
    for (const answer of open) answer()
    await Promise.all(first)
  })

  test('rejects a waiting request when its signal fires, and never sends it', async () => {
    const { fetch, paths, open } = heldFetch()
    const client = new OJSClient({ url: 'http://h', fetch })
    const first = Array.from({ length: AT_ONCE }, () => client.getJob('1'))
    const limit = new AbortController()
    const aborted = client.getJob('2', { signal: limit.signal })
    const last = client.getJob('3')
    limit.abort(new Error('enough'))
    const error = await aborted.catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(OJSTransportError)
    expect(error).toMatchObject({ kind: 'aborted', attempts: 0, cause: { message: 'enough' } })
    for (const answer of open) answer()
    await Promise.all(first)
    open.at(-1)?.()
    await last
    expect(paths).toHaveLength(AT_ONCE + 1)
    expect(paths).not.toContain('/jobs/2')
  })

  test('gives the places of failed requests to the waiting ones', async () => {
    let sent = 0
    const fetch: Fetch = () => {
      sent += 1
      return Promise.reject(new Error('refused'))
    }
    const client = new OJSClient({ url: 'http://h', fetch, retry: false })
    const all = Array.from({ length: 3 * AT_ONCE }, () => client.getJob('1'))
    await Promise.allSettled(all)
    expect(sent).toBe(3 * AT_ONCE)
  })

  test('does not send a request whose signal fires just when its turn comes', async () => {
    const { fetch, paths, open } = heldFetch()
    const transport = new HttpTransport({ url: 'http://h', fetch, retry: false })
    const first = Array.from({ length: AT_ONCE }, () =>
      transport.request({ method: 'GET', path: '/jobs/1' }),
    )
    const controller = new AbortController()
    const { signal } = controller
    const late = transport.request({ method: 'GET', path: '/jobs/2', signal })
    const failed = expect(late).rejects.toMatchObject({ kind: 'aborted' })
    const give = vi.spyOn(Slots.prototype, 'give').mockImplementationOnce(function (this: Slots) {
      give.mockRestore()
      this.give()
      controller.abort()
    })
    for (const answer of open) answer()
    await Promise.all([...first, failed])
    expect(paths).not.toContain('/jobs/2')
  })

  test("sends a worker's polls and heartbeats at once, although other requests wait", async () => {
    const { fetch, paths, open } = heldFetch()
    const transport = new HttpTransport({ url: 'http://h', fetch })
    const client = new OJSClient({ transport })
    const enqueued = Array.from({ length: 2 * AT_ONCE }, () => client.enqueue('t'))
    const worker = new OJSWorker({ transport, handleSignals: false, logger: false })
    const started = worker.start()
    await turn()
    const urgent = ['/workers/fetch', '/workers/heartbeat', '/h/ojs/manifest']
    expect(new Set(paths.slice(AT_ONCE))).toEqual(new Set(urgent))
    const stopped = worker.stop()
    const answering = setInterval(() => {
      for (const answer of open) answer()
    }, 1)
    await Promise.all([started, stopped, ...enqueued])
    clearInterval(answering)
  })
})

test('Slots: go to the waiting callers in order, also after all were free', async () => {
  const slots = new Slots(1)
  const order: number[] = []
  for (let round = 0; round < 3; round += 1) {
    expect(slots.take(undefined)).toBe(true)
    const waiting = [1, 2, 3].map(async (n) => {
      await slots.take(undefined)
      order.push(n)
      slots.give()
    })
    slots.give()
    await Promise.all(waiting)
  }
  expect(order).toEqual([1, 2, 3, 1, 2, 3, 1, 2, 3])
})
