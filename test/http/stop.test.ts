import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { answer } from '../../src/http/answer.ts'
import { readJson } from '../../src/http/body.ts'
import { Polls } from '../../src/http/polls.ts'
import type { Route } from '../../src/http/route.ts'
import { deferred } from '../support/deferred.ts'
import { EVENTUALLY, serve, slowRoute } from './frame.ts'
import { RawClient, request } from './raw-client.ts'

const NEVER = new AbortController().signal

function held() {
  const { slow, entered, open } = slowRoute()
  const routes: Route[] = [
    slow,
    { method: 'GET', path: '/fast', handle: (_request, response) => answer(response, 200, '{}') },
  ]
  return { routes, open, entered }
}

/** As on a machine that others use, or for a large commit. */
function standStill(ms: number): void {
  const since = performance.now()
  while (performance.now() - since < ms);
}

function refusesConnections(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' })
    socket.on('connect', () => resolve(false))
    socket.on('error', () => resolve(true))
  })
}

describe('start', () => {
  test('is idempotent, and a taken port is an error', async () => {
    const frame = await serve([])
    await frame.server.start()
    await expect(serve([], { port: frame.port })).rejects.toMatchObject({ code: 'EADDRINUSE' })
  })
})

describe('start after a stop', () => {
  test('serves as before, whatever becomes of the deadline of that stop', async () => {
    const frame = await serve(held().routes)
    const deadline = new AbortController()
    await frame.server.stop(deadline.signal)
    await frame.server.start()
    const client = await RawClient.connect(Number(new URL(frame.server.url()).port))
    onTestFinished(() => client.destroy())
    for (const _ of ['before', 'after']) {
      client.send(request('GET', '/fast'))
      const { status, headers } = await client.answer()
      expect([status, headers['connection']]).toEqual([200, 'keep-alive'])
      deadline.abort()
    }
  })
})

describe('stop', () => {
  test('without start, and twice', async () => {
    const frame = await serve([])
    await Promise.all([frame.server.stop(NEVER), frame.server.stop(NEVER)])
    await frame.server.stop(NEVER)
    expect(await refusesConnections(frame.port)).toBe(true)
  })

  test('answers what was on its way on a connection without a request, as its last', async () => {
    const frame = await serve(held().routes)
    const fresh = await frame.client()
    const used = await frame.client()
    used.send(request('GET', '/fast'))
    await used.answer()
    // Not read yet.
    for (const client of [fresh, used]) client.send(request('GET', '/fast'))
    const stopped = frame.server.stop(NEVER)
    for (const client of [fresh, used]) {
      const last = await client.answer()
      expect(last).toMatchObject({ status: 200, headers: { connection: 'close' } })
      expect([await client.closed(), client.failure]).toEqual(['', undefined])
    }
    await stopped
  })

  test('answers it, too, where the process stands still for longer than the connection has', async () => {
    const frame = await serve(held().routes)
    const client = await frame.client()
    client.send(request('GET', '/fast'))
    await client.answer()
    client.send(request('GET', '/fast'))
    const stopped = frame.server.stop(NEVER)
    standStill(300)
    expect(await client.answer()).toMatchObject({ status: 200, headers: { connection: 'close' } })
    await stopped
  })

  test('closes idle connections soon: fresh ones and those between two requests', async () => {
    const frame = await serve(held().routes)
    const fresh = await frame.client()
    const used = await frame.client()
    used.send(request('GET', '/fast'))
    await used.answer()
    await frame.server.stop(NEVER)
    expect(await fresh.closed()).toBe('')
    expect(await used.closed()).toBe('')
  })

  test('waits for no rest of a next request, and for a body only so long', async () => {
    let reading = 0
    const echo: Route = {
      method: 'POST',
      path: '/echo',
      async handle(req, res) {
        reading += 1
        answer(res, 200, JSON.stringify(await readJson(req, res, 1_000)))
      },
    }
    const frame = await serve([...held().routes, echo])
    const [half, stalled, coming, late] = [
      await frame.client(),
      await frame.client(),
      await frame.client(),
      await frame.client(),
    ]
    half.send(request('GET', '/fast'))
    await half.answer()
    half.send(Buffer.from('GET /fast HTTP/1.1\r\nHo'))
    for (const client of [stalled, coming]) {
      client.send(request('POST', '/echo', { 'Content-Length': '2' }))
      client.send(Buffer.from('{'))
    }
    await expect.poll(() => reading).toBe(2)
    // Not read yet.
    late.send(request('POST', '/echo', { 'Content-Length': '2' }))
    late.send(Buffer.from('{'))
    const stopped = frame.server.stop(NEVER)
    // At once: it has a few seconds, and a machine may pause for them.
    coming.send(Buffer.from('}'))
    expect(await half.closed()).toBe('')
    expect((await coming.answer()).status).toBe(200)
    await stopped
    expect(await stalled.closed()).toBe('')
    expect(await late.closed()).toBe('')
    expect(reading).toBe(3)
  })

  test('answers what takes longer than an idle connection has, and came on one', async () => {
    const { routes, open, entered } = held()
    const frame = await serve(routes)
    const [client, idle] = [await frame.client(), await frame.client()]
    client.send(request('GET', '/slow'))
    const stopped = frame.server.stop(NEVER)
    await entered
    expect(await idle.closed()).toBe('')
    open()
    expect(await client.answer()).toMatchObject({ status: 200, headers: { connection: 'close' } })
    await stopped
  })

  test('closes soon what an answer has said keep-alive to before', async () => {
    const word = deferred()
    const begun: Route = {
      method: 'GET',
      path: '/begun',
      async handle(_request, response) {
        response.writeHead(200, { 'Content-Length': '2' }).write('{')
        await word.promise
        response.end('}')
      },
    }
    const frame = await serve([begun])
    const client = await frame.client()
    client.send(request('GET', '/begun'))
    await once(client.socket, 'data')
    const stopped = frame.server.stop(NEVER)
    word.resolve()
    expect(await client.answer()).toMatchObject({
      body: '{}',
      headers: { connection: 'keep-alive' },
    })
    await stopped
    expect(await client.closed()).toBe('')
  })

  test('answers what was asked, with Connection: close, and accepts nothing new', async () => {
    const { routes, open, entered } = held()
    const frame = await serve(routes)
    const client = await frame.client()
    client.send(request('GET', '/slow'))
    await entered
    const stopped = frame.server.stop(NEVER)
    expect(await refusesConnections(frame.port)).toBe(true)
    open()
    const result = await client.answer()
    expect(result.status).toBe(200)
    expect(result.headers['connection']).toBe('close')
    await stopped
    expect(await client.closed()).toBe('')
  })

  test('a request that is already in the pipe is answered, too', async () => {
    const { routes, open, entered } = held()
    const frame = await serve(routes)
    const client = await frame.client()
    client.send(Buffer.concat([request('GET', '/slow'), request('GET', '/fast')]))
    await entered
    const stopped = frame.server.stop(NEVER)
    open()
    expect((await client.answer()).status).toBe(200)
    expect((await client.answer()).status).toBe(200)
    await stopped
    expect(await client.closed()).toBe('')
  })

  test('what comes behind an answer that is on its way is answered, and ends the connection', async () => {
    const { routes, open, entered } = held()
    let asked = 0
    const counted: Route = {
      method: 'GET',
      path: '/counted',
      handle(_request, response) {
        asked += 1
        answer(response, 200, '{}')
      },
    }
    const frame = await serve([...routes, counted])
    const client = await frame.client()
    client.send(Buffer.concat([request('GET', '/slow'), request('GET', '/counted')]))
    await entered
    await expect.poll(() => asked, EVENTUALLY).toBe(1)
    const stopped = frame.server.stop(NEVER)
    client.send(request('GET', '/counted'))
    await expect.poll(() => asked, EVENTUALLY).toBe(2)
    open()
    expect((await client.answer()).status).toBe(200)
    expect((await client.answer()).status).toBe(200)
    const last = await client.answer()
    expect(last).toMatchObject({ status: 200, headers: { connection: 'close' } })
    await stopped
  })

  test.each([
    ['at the deadline', 50],
    ['at once where that is over', 0],
  ])('cuts off %s', async (_when, ms) => {
    const { routes, entered } = held()
    const frame = await serve(routes)
    const client = await frame.client()
    client.send(request('GET', '/slow'))
    await entered
    await frame.server.stop(ms === 0 ? AbortSignal.abort() : AbortSignal.timeout(ms))
    expect(await client.closed()).toBe('')
  })

  describe('FETCHes', () => {
    const polling = () => {
      const polls = new Polls()
      const waits: AbortSignal[] = []
      const routes: Route[] = [
        {
          method: 'POST',
          path: '/poll',
          async handle(req, res) {
            await readJson(req, res, 1_000)
            const poll = polls.open(res)
            waits.push(poll.signal)
            if (!poll.signal.aborted) await once(poll.signal, 'abort')
            await poll.answer('{"jobs":[]}')
            poll.close()
          },
        },
      ]
      return { waits, routes, onStopping: () => polls.endAll() }
    }
    const POLL = request('POST', '/poll', {}, '{}')

    test('that wait are answered at once', async () => {
      const { waits, routes, onStopping } = polling()
      const frame = await serve(routes, { onStopping })
      const client = await frame.client()
      client.send(Buffer.concat([POLL, POLL]))
      await expect.poll(() => waits.length, EVENTUALLY).toBe(2)
      await frame.server.stop(NEVER)
      expect((await client.answer()).body).toBe('{"jobs":[]}')
      expect((await client.answer()).body).toBe('{"jobs":[]}')
    })

    test('whose body comes only now do not begin to wait', async () => {
      const { routes, onStopping } = polling()
      const frame = await serve(routes, { onStopping })
      const client = await frame.client()
      client.send(request('POST', '/poll', { 'Content-Length': '2', Expect: '100-continue' }))
      expect((await client.answer()).status).toBe(100)
      const stopped = frame.server.stop(NEVER)
      client.send('{}')
      expect((await client.answer()).body).toBe('{"jobs":[]}')
      await stopped
    })
  })
})
