import { once } from 'node:events'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { LongPolls } from '../../src/http/connection/long-polls.ts'
import type { Door } from '../../src/http/routes/route-deps.ts'
import { workerRoutes } from '../../src/http/routes/workers.ts'
import { fetch, giveBack } from '../../src/operations/fetch/fetch.ts'
import { openDoor } from './door.ts'
import { EVENTUALLY, type Frame, serve } from './frame.ts'
import { jobRow } from './job-rows.ts'
import { type RawClient, request } from './raw-client.ts'

vi.mock('../../src/operations/fetch/fetch.ts')

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

/** Makes FETCH wait in the operation. `claim` ends the wait of the oldest one with jobs. */
function makeFetchWait() {
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
/** Another request: once it is answered, the gateway has handled what came before. */
const untilHandled = (door: Frame) => door.ask(request('GET', '/ojs/manifest'))

describe.each(LEAVING)('a FETCH whose client has %s its connection', (how, leave) => {
  test('before a byte of the body came is removed from the polls', async () => {
    const polls = new LongPolls()
    const frame = await serve(
      workerRoutes({ polls, deps: { settings: { maxBodyBytes: 1_000 } } } as Door),
    )
    const client = await frame.client()
    client.send(request('POST', '/ojs/v1/workers/fetch', { 'Content-Length': '20' }))
    await expect.poll(() => polls.size, EVENTUALLY).toBe(1)
    leave(client)
    await expect.poll(() => polls.size, EVENTUALLY).toBe(0)
  })

  test('while it waited is aborted, and jobs that were claimed meanwhile are given back', async () => {
    const { signals, claim } = makeFetchWait()
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

  test('while it waited without claiming a job gives nothing back', async () => {
    const { signals, claim } = makeFetchWait()
    const door = await openDoor()
    const client = await door.client()
    client.send(FETCH)
    await expect.poll(() => signals.length, EVENTUALLY).toBe(1)
    leave(client)
    await aborted(signals[0] ?? AbortSignal.abort())
    claim([])
    await untilHandled(door)
    // Who has closed may still read.
    const status = how === 'closed' ? 200 : 0
    expect(door.done[0]).toMatchObject({ route: '/ojs/v1/workers/fetch', status })
    expect(givenBack()).toEqual([])
    expect(door.log).toEqual([])
  })

  test('while a large answer was being written gives the job back', async () => {
    const { signals, claim } = makeFetchWait()
    const door = await openDoor()
    const client = await door.client()
    client.send(FETCH)
    await expect.poll(() => signals.length, EVENTUALLY).toBe(1)
    // More than the socket buffers hold, so that writing stalls while the client does not read.
    client.socket.pause()
    const large = jobRow({ id: 'large', envelope: `{"args":["${'x'.repeat(30_000_000)}"]}` })
    claim([large])
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(givenBack()).toEqual([])
    client.socket.resetAndDestroy()
    await expect.poll(givenBack, EVENTUALLY).toEqual([['large']])
    expect(door.done).toMatchObject([{ route: '/ojs/v1/workers/fetch', status: 0 }])
  })

  test('that had pipelined several gives back the jobs of each', async () => {
    const { signals, claim } = makeFetchWait()
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

  test('whose answer had to wait for an earlier one gives its job back', async () => {
    const { signals, claims } = makeFetchWait()
    const door = await openDoor()
    const client = await door.client()
    client.send(Buffer.concat([FETCH, FETCH]))
    await expect.poll(() => signals.length, EVENTUALLY).toBe(2)
    claims[1]?.([jobRow({ id: 'second' })])
    await untilHandled(door)
    expect(givenBack()).toEqual([])
    leave(client)
    await expect.poll(givenBack, EVENTUALLY).toEqual([['second']])
    claims[0]?.([])
  })
})

describe('a FETCH whose client stays connected', () => {
  test('gives nothing back, and its connection can be used again', async () => {
    vi.mocked(fetch).mockResolvedValue(JOBS)
    const door = await openDoor()
    const client = await door.client()
    for (let i = 0; i < 3; i++) {
      client.send(FETCH)
      expect(JSON.parse((await client.answer()).body)).toMatchObject({ jobs: [{ id: 'a' }, {}] })
    }
    client.socket.end()
    await client.closed()
    await untilHandled(door)
    expect(givenBack()).toEqual([])
  })

  test('is not aborted if the client leaves after the answer', async () => {
    const { signals, claim } = makeFetchWait()
    const door = await openDoor()
    const client = await door.client()
    client.send(FETCH)
    await expect.poll(() => signals.length, EVENTUALLY).toBe(1)
    claim(JOBS)
    await client.answer()
    await expect.poll(() => door.done.length, EVENTUALLY).toBe(1)
    client.socket.end()
    await client.closed()
    await untilHandled(door)
    expect(signals[0]?.aborted).toBe(false)
  })

  test('can wait together with 19 others on one connection, without a warning of Node.js', async () => {
    const { signals, claim } = makeFetchWait()
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

describe('giving back the jobs of a FETCH whose client left', () => {
  const leaveWithJobs = async () => {
    const { signals, claim } = makeFetchWait()
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

  test('is logged at info with the request id and the job ids', async () => {
    expect(await leaveWithJobs()).toMatchObject({
      level: 'info',
      fields: { requestId: 'req_f', jobIds: ['a', 'b'] },
    })
  })

  test('is logged at warn with the error if it fails', async () => {
    const failure = new Error('ledger')
    vi.mocked(giveBack).mockRejectedValue(failure)
    expect(await leaveWithJobs()).toMatchObject({
      level: 'warn',
      fields: { err: failure, requestId: 'req_f', jobIds: ['a', 'b'] },
    })
  })
})
