import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { LongPolls } from '../../src/http/connection/long-polls.ts'
import { readJson } from '../../src/http/message/body.ts'
import { answer } from '../../src/http/message/respond.ts'
import type { Route } from '../../src/http/route.ts'
import { deferred } from '../support/time/deferred.ts'
import { EVENTUALLY, serve, slowRoute } from './frame.ts'
import { RawClient, request } from './raw-client.ts'

const NEVER = new AbortController().signal

function slowAndFast() {
  const { slow, entered, open } = slowRoute()
  const routes: Route[] = [
    slow,
    { method: 'GET', path: '/fast', handle: (_request, response) => answer(response, 200, '{}') },
  ]
  return { routes, open, entered }
}

/** Blocks the event loop, as a busy machine or a large commit does. */
function blockEventLoop(ms: number): void {
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

describe('HttpServer.start', () => {
  test('can be called twice, and rejects if the port is taken', async () => {
    const frame = await serve([])
    await frame.server.start()
    await expect(serve([], { port: frame.port })).rejects.toMatchObject({ code: 'EADDRINUSE' })
  })
})

describe('HttpServer.start after a stop', () => {
  test('serves as before, also when the deadline of the earlier stop passes', async () => {
    const frame = await serve(slowAndFast().routes)
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

describe('HttpServer.stop', () => {
  test('can be called repeatedly, and connections are then refused', async () => {
    const frame = await serve([])
    await Promise.all([frame.server.stop(NEVER), frame.server.stop(NEVER)])
    await frame.server.stop(NEVER)
    expect(await refusesConnections(frame.port)).toBe(true)
  })

  test('answers a request that was sent just before on an idle connection, with Connection: close', async () => {
    const frame = await serve(slowAndFast().routes)
    const fresh = await frame.client()
    const used = await frame.client()
    used.send(request('GET', '/fast'))
    await used.answer()
    // The server has not read it yet.
    for (const client of [fresh, used]) client.send(request('GET', '/fast'))
    const stopped = frame.server.stop(NEVER)
    for (const client of [fresh, used]) {
      const last = await client.answer()
      expect(last).toMatchObject({ status: 200, headers: { connection: 'close' } })
      expect([await client.closed(), client.failure]).toEqual(['', undefined])
    }
    await stopped
  })

  test('answers such a request also if the event loop is blocked for longer than idle connections get', async () => {
    const frame = await serve(slowAndFast().routes)
    const client = await frame.client()
    client.send(request('GET', '/fast'))
    await client.answer()
    client.send(request('GET', '/fast'))
    const stopped = frame.server.stop(NEVER)
    blockEventLoop(300)
    expect(await client.answer()).toMatchObject({ status: 200, headers: { connection: 'close' } })
    await stopped
  })

  test('closes idle connections, both new ones and those between two requests', async () => {
    const frame = await serve(slowAndFast().routes)
    const fresh = await frame.client()
    const used = await frame.client()
    used.send(request('GET', '/fast'))
    await used.answer()
    await frame.server.stop(NEVER)
    expect(await fresh.closed()).toBe('')
    expect(await used.closed()).toBe('')
  })

  test('does not wait for incomplete headers, and only a few seconds for a body', async () => {
    let reading = 0
    const echo: Route = {
      method: 'POST',
      path: '/echo',
      async handle(req, res) {
        reading += 1
        answer(res, 200, JSON.stringify(await readJson(req, res, 1_000)))
      },
    }
    const frame = await serve([...slowAndFast().routes, echo])
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
    // The server has not read it yet.
    late.send(request('POST', '/echo', { 'Content-Length': '2' }))
    late.send(Buffer.from('{'))
    const stopped = frame.server.stop(NEVER)
    // Sent at once: the server waits a few seconds for it, and a busy machine may pause as long.
    coming.send(Buffer.from('}'))
    expect(await half.closed()).toBe('')
    expect((await coming.answer()).status).toBe(200)
    await stopped
    expect(await stalled.closed()).toBe('')
    expect(await late.closed()).toBe('')
    expect(reading).toBe(3)
  })

  test('answers a slow request from an idle connection that was sent just before', async () => {
    const { routes, open, entered } = slowAndFast()
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

  test('closes a connection whose answer had begun before with keep-alive', async () => {
    const permission = deferred()
    const begun: Route = {
      method: 'GET',
      path: '/begun',
      async handle(_request, response) {
        response.writeHead(200, { 'Content-Length': '2' }).write('{')
        await permission.promise
        response.end('}')
      },
    }
    const frame = await serve([begun])
    const client = await frame.client()
    client.send(request('GET', '/begun'))
    await once(client.socket, 'data')
    const stopped = frame.server.stop(NEVER)
    permission.resolve()
    expect(await client.answer()).toMatchObject({
      body: '{}',
      headers: { connection: 'keep-alive' },
    })
    await stopped
    expect(await client.closed()).toBe('')
  })

  test('answers a request under way with Connection: close, and refuses new connections', async () => {
    const { routes, open, entered } = slowAndFast()
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

  test('answers a pipelined request behind the one under way', async () => {
    const { routes, open, entered } = slowAndFast()
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

  test('answers requests that come while earlier answers are pending, the last with Connection: close', async () => {
    const { routes, open, entered } = slowAndFast()
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
    ['at its deadline', 50],
    ['at once if its deadline has passed', 0],
  ])('disconnects a request under way %s', async (_when, ms) => {
    const { routes, entered } = slowAndFast()
    const frame = await serve(routes)
    const client = await frame.client()
    client.send(request('GET', '/slow'))
    await entered
    await frame.server.stop(ms === 0 ? AbortSignal.abort() : AbortSignal.timeout(ms))
    expect(await client.closed()).toBe('')
  })

  describe('with FETCHes', () => {
    const polling = () => {
      const polls = new LongPolls()
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

    test('answers those that wait at once', async () => {
      const { waits, routes, onStopping } = polling()
      const frame = await serve(routes, { onStopping })
      const client = await frame.client()
      client.send(Buffer.concat([POLL, POLL]))
      await expect.poll(() => waits.length, EVENTUALLY).toBe(2)
      await frame.server.stop(NEVER)
      expect((await client.answer()).body).toBe('{"jobs":[]}')
      expect((await client.answer()).body).toBe('{"jobs":[]}')
    })

    test('answers those at once whose body comes only during the stop', async () => {
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
