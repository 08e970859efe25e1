import { once } from 'node:events'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { Polls } from '../../src/http/polls.ts'
import type { Door } from '../../src/http/routes/door.ts'
import { workerRoutes } from '../../src/http/routes/workers.ts'
import { fetch, giveBack } from '../../src/operations/fetch.ts'
import { openDoor } from './door.ts'
import { EVENTUALLY, type Frame, serve } from './frame.ts'
import { jobRow } from './job-rows.ts'
import { type RawClient, request } from './raw-client.ts'

vi.mock('../../src/operations/fetch.ts')

beforeEach(() => {
  vi.resetAllMocks()
  vi.mocked(giveBack).mockResolvedValue()
})

const FETCH = request(
  'POST',
  '/ojs/v1/workers/fetch',
  { 'X-Request-Id': 'req_f' },
  '{"queues":["q"]}',
)
const JOBS = [jobRow({ id: 'a' }), jobRow({ id: 'b' })]

/** A FETCH that is waiting in the operation; `claim` ends its wait with jobs. */
function waiting() {
  const signals: AbortSignal[] = []
  const claims: ((jobs: typeof JOBS) => void)[] = []
  vi.mocked(fetch).mockImplementation((_deps, _body, _context, signal) => {
    signals.push(signal)
    return new Promise((resolve) => claims.push(resolve))
  })
  return { signals, claims, claim: (jobs: typeof JOBS) => claims.shift()?.(jobs) }
}

const LEAVING: [name: string, leave: (client: RawClient) => void][] = [
  ['closed', (client) => client.socket.end()],
  ['reset', (client) => client.socket.resetAndDestroy()],
]

const givenBack = () => vi.mocked(giveBack).mock.calls.map(([, jobs]) => jobs.map(({ id }) => id))
const aborted = (signal: AbortSignal) => signal.aborted || once(signal, 'abort')
const isIdle = (door: Frame) => door.ask(request('GET', '/ojs/manifest'))

describe.each(LEAVING)('the client has %s its connection', (_name, leave) => {
  test('before a byte of its body came: nothing is kept of it', async () => {
    const polls = new Polls()
    const frame = await serve(workerRoutes({ polls, maxBodyBytes: 1_000 } as Door))
    const client = await frame.client()
    client.send(request('POST', '/ojs/v1/workers/fetch', { 'Content-Length': '20' }))
    await expect.poll(() => polls.size, EVENTUALLY).toBe(1)
    leave(client)
    await expect.poll(() => polls.size, EVENTUALLY).toBe(0)
  })

  test('while FETCH waited: the wait ends, and what was claimed meanwhile goes back', async () => {
    const { signals, claim } = waiting()
    const door = await openDoor()
    const client = await door.client()
    client.send(FETCH)
    await expect.poll(() => signals.length, EVENTUALLY).toBe(1)
    expect(signals[0]?.aborted).toBe(false)
    leave(client)
    await aborted(signals[0] ?? AbortSignal.abort())
    claim(JOBS)
    await expect.poll(givenBack, EVENTUALLY).toEqual([['a', 'b']])
  })

  test('while FETCH waited, and nothing was claimed: nothing goes back', async () => {
    const { signals, claim } = waiting()
    const door = await openDoor()
    const client = await door.client()
    client.send(FETCH)
    await expect.poll(() => signals.length, EVENTUALLY).toBe(1)
    leave(client)
    await aborted(signals[0] ?? AbortSignal.abort())
    claim([])
    await isIdle(door)
    expect(door.done[0]).toMatchObject({ route: '/ojs/v1/workers/fetch', status: 0 })
    expect(givenBack()).toEqual([])
    expect(door.log).toEqual([])
  })

  test('while the answer was being written', async () => {
    const { signals, claim } = waiting()
    const door = await openDoor()
    const client = await door.client()
    client.send(FETCH)
    await expect.poll(() => signals.length, EVENTUALLY).toBe(1)
    // Far more than the buffers of both kernels: the client reads none of it.
    client.socket.pause()
    const large = jobRow({ id: 'large', envelope: `{"args":["${'x'.repeat(30_000_000)}"]}` })
    claim([large])
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(givenBack()).toEqual([])
    client.socket.resetAndDestroy()
    await expect.poll(givenBack, EVENTUALLY).toEqual([['large']])
    expect(door.done).toMatchObject([{ route: '/ojs/v1/workers/fetch', status: 0 }])
  })

  test('with several FETCHes in the pipe: each gives back its own', async () => {
    const { signals, claim } = waiting()
    const door = await openDoor()
    const client = await door.client()
    client.send(Buffer.concat([FETCH, FETCH, FETCH]))
    await expect.poll(() => signals.length, EVENTUALLY).toBe(3)
    leave(client)
    await Promise.all(signals.map(aborted))
    claim([jobRow({ id: 'a' })])
    claim([])
    claim([jobRow({ id: 'c' })])
    await expect.poll(givenBack, EVENTUALLY).toEqual([['a'], ['c']])
  })

  test('when a later FETCH was claimed, but its turn to answer never came', async () => {
    const { signals, claims } = waiting()
    const door = await openDoor()
    const client = await door.client()
    client.send(Buffer.concat([FETCH, FETCH]))
    await expect.poll(() => signals.length, EVENTUALLY).toBe(2)
    claims[1]?.([jobRow({ id: 'second' })])
    await isIdle(door)
    expect(givenBack()).toEqual([])
    leave(client)
    await expect.poll(givenBack, EVENTUALLY).toEqual([['second']])
    claims[0]?.([])
  })
})

describe('the client is there', () => {
  test('nothing goes back, and the connection serves on', async () => {
    vi.mocked(fetch).mockResolvedValue(JOBS)
    const door = await openDoor()
    const client = await door.client()
    for (let i = 0; i < 3; i++) {
      client.send(FETCH)
      expect(JSON.parse((await client.answer()).body)).toMatchObject({ jobs: [{ id: 'a' }, {}] })
    }
    client.socket.end()
    await client.closed()
    await isIdle(door)
    expect(givenBack()).toEqual([])
  })

  test('a FETCH that is answered is not watched any longer', async () => {
    const { signals, claim } = waiting()
    const door = await openDoor()
    const client = await door.client()
    client.send(FETCH)
    await expect.poll(() => signals.length, EVENTUALLY).toBe(1)
    claim(JOBS)
    await client.answer()
    await expect.poll(() => door.done.length, EVENTUALLY).toBe(1)
    client.socket.end()
    await client.closed()
    await isIdle(door)
    expect(signals[0]?.aborted).toBe(false)
  })

  test('twenty FETCHes may wait on one connection', async () => {
    const { signals, claim } = waiting()
    const warn = vi.fn()
    process.on('warning', warn)
    const door = await openDoor()
    const client = await door.client()
    client.send(Buffer.concat(Array.from({ length: 20 }, () => FETCH)))
    await expect.poll(() => signals.length, EVENTUALLY).toBe(20)
    for (let i = 0; i < 20; i++) claim([])
    for (let i = 0; i < 20; i++) expect((await client.answer()).body).toBe('{"jobs":[]}')
    process.off('warning', warn)
    expect(warn).not.toHaveBeenCalled()
  })
})

describe('giving back', () => {
  const leaveWithJobs = async () => {
    const { signals, claim } = waiting()
    const door = await openDoor()
    const client = await door.client()
    client.send(FETCH)
    await expect.poll(() => signals.length, EVENTUALLY).toBe(1)
    client.destroy()
    await aborted(signals[0] ?? AbortSignal.abort())
    claim(JOBS)
    await expect.poll(() => door.log.length, EVENTUALLY).toBe(1)
    return door.log[0]
  }

  test('is logged with the ids', async () => {
    expect(await leaveWithJobs()).toMatchObject({
      level: 'info',
      fields: { requestId: 'req_f', jobIds: ['a', 'b'] },
    })
  })

  test('may fail: that is logged, too', async () => {
    const failure = new Error('ledger')
    vi.mocked(giveBack).mockRejectedValue(failure)
    expect(await leaveWithJobs()).toMatchObject({
      level: 'warn',
      fields: { err: failure, requestId: 'req_f', jobIds: ['a', 'b'] },
    })
  })
})
