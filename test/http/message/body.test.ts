import { getHeapStatistics } from 'node:v8'
import { describe, expect, test } from 'vitest'
import { readJson } from '../../../src/http/message/body.ts'
import { BodyBudget, type Incoming } from '../../../src/http/message/body-budget.ts'
import { answer } from '../../../src/http/message/respond.ts'
import type { Route } from '../../../src/http/route.ts'
import { MemoryShare } from '../../../src/memory.ts'
import { deferred } from '../../support/time/deferred.ts'
import { EVENTUALLY, errorOf, serve } from '../frame.ts'
import { request } from '../raw-client.ts'

const MAX = 1_000
const ROUTES: Route[] = [
  {
    method: 'POST',
    path: '/echo',
    async handle(req, res) {
      answer(res, 200, JSON.stringify(await readJson(req, res, MAX)))
    },
  },
]
const bodyOf = (bytes: number) => `{"a":"${'x'.repeat(bytes - 8)}"}`
const CHUNKED = { 'Transfer-Encoding': 'chunked' }
const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`

describe('a request body and its limit', () => {
  test('a body of exactly the limit is accepted, and one byte more is 413, also chunked', async () => {
    const frame = await serve(ROUTES)
    expect((await frame.ask(request('POST', '/echo', {}, bodyOf(MAX)))).status).toBe(200)
    expect((await frame.ask(request('POST', '/echo', {}, bodyOf(MAX + 1)))).status).toBe(413)
    const chunked = (bytes: number, coding = CHUNKED) =>
      Buffer.concat([
        request('POST', '/echo', coding),
        Buffer.from(`${chunk(bodyOf(bytes))}0\r\n\r\n`),
      ])
    expect((await frame.ask(chunked(MAX))).status).toBe(200)
    expect((await frame.ask(chunked(MAX + 1))).status).toBe(413)
    // RFC 9112 §7: names of codings are case-insensitive.
    const shouted = { 'Transfer-Encoding': 'Chunked' }
    expect((await frame.ask(chunked(MAX, shouted))).status).toBe(200)
  })

  test('a Content-Length beyond the limit is 413 before a byte of the body has come', async () => {
    const frame = await serve(ROUTES)
    const client = await frame.client()
    client.send(request('POST', '/echo', { 'Content-Length': '5000000' }))
    const result = await client.answer()
    expect(result.status).toBe(413)
    expect(result.headers['connection']).toBe('close')
    expect(errorOf(result)).toMatchObject({
      code: 'invalid_request',
      retryable: false,
      details: { field: 'body', actual_bytes: 5_000_000, max_bytes: MAX },
    })
  })

  test('a chunked body is 413 as soon as it exceeds the limit', async () => {
    const frame = await serve(ROUTES)
    const client = await frame.client()
    client.send(request('POST', '/echo', CHUNKED))
    client.send(chunk('x'.repeat(MAX)))
    client.send(chunk('x'))
    const result = await client.answer()
    expect(result.status).toBe(413)
    expect(errorOf(result).details).toMatchObject({ actual_bytes: MAX + 1 })
  })

  test('a client that sends all of 20 MB can still read the 413', async () => {
    const frame = await serve(ROUTES)
    const client = await frame.client()
    const body = Buffer.alloc(20_000_000, 'x')
    client.send(request('POST', '/echo', {}, body))
    expect((await client.answer()).status).toBe(413)
    expect(await client.closed()).toBe('')
    expect(client.failure).toBeUndefined()
  })

  test('a client that sends nothing after the 413 is disconnected', async () => {
    const frame = await serve(ROUTES)
    const client = await frame.client()
    client.send(request('POST', '/echo', { 'Content-Length': '5000000' }))
    await client.answer()
    expect(await client.closed()).toBe('')
    await expect.poll(() => frame.done, EVENTUALLY).toMatchObject([{ route: '/echo', status: 413 }])
  })
})

describe('Expect: 100-continue', () => {
  const expecting = (length: number) =>
    request('POST', '/echo', { Expect: '100-continue', 'Content-Length': String(length) })

  test('is answered 100, and the body is then read', async () => {
    const frame = await serve(ROUTES)
    const client = await frame.client()
    client.send(expecting(7))
    expect((await client.answer()).status).toBe(100)
    client.send('{"a":1}')
    expect(await client.answer()).toMatchObject({ status: 200, body: '{"a":1}' })
  })

  test('is answered 413 without a 100 for a body beyond the limit', async () => {
    const frame = await serve(ROUTES)
    const client = await frame.client()
    client.send(expecting(MAX + 1))
    expect((await client.answer()).status).toBe(413)
  })

  test('is answered 400 without a 100 for a wrong Content-Type, and the connection is closed', async () => {
    const frame = await serve(ROUTES)
    const client = await frame.client()
    client.send(
      request('POST', '/echo', {
        Expect: '100-continue',
        'Content-Type': 'text/plain',
        'Content-Length': '7',
      }),
    )
    const result = await client.answer()
    expect(result.status).toBe(400)
    expect(result.headers['connection']).toBe('close')
    expect(await client.closed()).toBe('')
  })

  test('is ignored in HTTP/1.0', async () => {
    const frame = await serve(ROUTES)
    const client = await frame.client()
    client.send(String(expecting(7)).replace('HTTP/1.1', 'HTTP/1.0'))
    client.send('{"a":1}')
    expect(await client.answer()).toMatchObject({ status: 200, body: '{"a":1}' })
  })
})

describe('the budget of all bodies that are being received', () => {
  const serving = async (budget: BodyBudget) =>
    await serve([
      {
        method: 'POST',
        path: '/echo',
        async handle(req, res) {
          answer(res, 200, JSON.stringify(await readJson(req, res, MAX, { budget })))
        },
      },
    ])
  const halfOf = (bytes: number) =>
    Buffer.concat([
      request('POST', '/echo', { 'Content-Length': String(MAX) }),
      Buffer.from(bodyOf(MAX).slice(0, bytes)),
    ])

  test('is limited: the largest body is refused with 503 busy and Retry-After when it is exceeded', async () => {
    const budget = new BodyBudget(3 * MAX)
    const frame = await serving(budget)
    const clients = await Promise.all(Array.from({ length: 4 }, () => frame.client()))
    for (const client of clients) client.send(halfOf(MAX - 1))
    const refused = await Promise.race(clients.map((client) => client.answer()))
    expect(refused.status).toBe(503)
    expect(refused.headers).toMatchObject({ 'retry-after': '1' })
    expect(errorOf(refused)).toMatchObject({ retryable: true, details: { reason: 'busy' } })

    for (const client of clients) client.destroy()
    await expect.poll(() => frame.done, EVENTUALLY).toHaveLength(4)
    await expect.poll(() => budget.taken, EVENTUALLY).toBe(0)
    expect((await frame.ask(request('POST', '/echo', {}, bodyOf(MAX)))).status).toBe(200)
    expect(budget.taken).toBe(0)
  })

  test('counts every byte, and returns the bytes of a refused body', () => {
    const budget = new BodyBudget(10)
    const refused: string[] = []
    const body = (name: string): Incoming => ({
      maxBytes: 8,
      size: 0,
      refuse() {
        refused.push(name)
        if (refused.length > 1) throw new Error(`${refused} were refused`)
      },
    })
    const [large, small] = [body('large'), body('small')]
    budget.take(large, 6)
    budget.take(small, 4)
    expect({ refused, taken: budget.taken }).toEqual({ refused: [], taken: 10 })
    budget.take(small, 1)
    expect({ refused, taken: budget.taken }).toEqual({ refused: ['large'], taken: 5 })
  })

  test('counts a complete body until it ends, and does not refuse it', () => {
    const budget = new BodyBudget(10)
    const refused: string[] = []
    const body = (name: string) => ({ maxBytes: 8, size: 0, refuse: () => refused.push(name) })
    const [complete, coming] = [body('complete'), body('coming')]
    budget.take(complete, 8)
    budget.complete(complete)
    budget.take(coming, 3)
    expect({ refused, taken: budget.taken }).toEqual({ refused: ['coming'], taken: 8 })
    budget.end(complete)
    budget.end(complete)
    expect(budget.taken).toBe(0)
  })

  test('is free again after large bodies, whatever became of them', async () => {
    const budget = new BodyBudget(2 ** 20)
    const frame = await serve([
      {
        method: 'POST',
        path: '/echo',
        async handle(req, res) {
          await readJson(req, res, 2 ** 20, { budget })
          answer(res, 200, '{}')
        },
      },
    ])
    const bodies = [bodyOf(20_000), bodyOf(200_000), '['.repeat(200_000), `${bodyOf(200_000)}x`]
    for (const [i, body] of bodies.entries()) {
      const { status } = await frame.ask(request('POST', '/echo', {}, body))
      expect([i, status, budget.taken]).toEqual([i, i < 2 ? 200 : 400, 0])
    }
  })

  test('does not count bytes of a body that come after its refusal', async () => {
    const budget = new BodyBudget(3 * MAX)
    const frame = await serving(budget)
    const largeClients = await Promise.all(Array.from({ length: 4 }, () => frame.client()))
    for (const [i, client] of largeClients.entries())
      client.send(halfOf([MAX - 3, MAX - 4, MAX - 5, 5][i] ?? 0))
    await expect.poll(() => budget.taken, EVENTUALLY).toBe(3 * MAX - 7)
    largeClients[3]?.send('xxxxxxxx')
    expect((await largeClients[0]?.answer())?.status).toBe(503)
    largeClients[0]?.send('xxx')
    for (const client of largeClients) client.socket.end()
    await Promise.all(largeClients.map((client) => client.closed()))
    await expect.poll(() => budget.taken, EVENTUALLY).toBe(0)
  })

  test('does not prevent a small request while it is nearly used up', async () => {
    const budget = new BodyBudget(3 * MAX)
    const frame = await serving(budget)
    const largeClients = await Promise.all(Array.from({ length: 4 }, () => frame.client()))
    for (const [i, client] of largeClients.entries())
      client.send(halfOf([MAX - 1, MAX - 2, MAX - 3, 5][i] ?? 0))
    await expect.poll(() => budget.taken, EVENTUALLY).toBe(3 * MAX - 1)
    expect((await frame.ask(request('POST', '/echo', {}, '{"a":1}'))).status).toBe(200)
    expect((await largeClients[0]?.answer())?.status).toBe(503)
    expect(budget.taken).toBe(2 * MAX)
    for (const client of largeClients) client.destroy()
    await expect.poll(() => budget.taken, EVENTUALLY).toBe(0)
  })
})

test('a single body up to its own limit is accepted even if the budget of all bodies is smaller', async () => {
  const budget = new BodyBudget(MAX / 2)
  const frame = await serve([
    {
      method: 'POST',
      path: '/echo',
      async handle(req, res) {
        answer(res, 200, JSON.stringify(await readJson(req, res, MAX, { budget })))
      },
    },
  ])
  expect((await frame.ask(request('POST', '/echo', {}, bodyOf(MAX)))).status).toBe(200)
})

describe('the memory of requests that are being handled', () => {
  /** More than all requests together may take. A request that is alone gets it nevertheless. */
  const FULL = 2 ** 40
  const LARGE = bodyOf(20_000)
  const serving = async (done: Promise<void>) =>
    await serve([
      {
        method: 'POST',
        path: '/echo',
        async handle(req, res) {
          const { a } = await readJson(req, res, 100_000)
          if (a === 'x'.repeat(LARGE.length - 8)) await done
          answer(res, 200, '{}')
        },
      },
    ])

  test('is limited by the heap: a large body is refused with 503 busy, a small one is accepted', async () => {
    const frame = await serving(Promise.resolve())
    const others = new MemoryShare()
    others.take(FULL)
    try {
      const refused = await frame.ask(request('POST', '/echo', {}, LARGE))
      expect(refused.status).toBe(503)
      expect(refused.headers).toMatchObject({ 'retry-after': '1' })
      expect(errorOf(refused)).toMatchObject({ retryable: true, details: { reason: 'busy' } })
      expect((await frame.ask(request('POST', '/echo', {}, '{"a":1}'))).status).toBe(200)
    } finally {
      others.giveBack()
    }
    expect((await frame.ask(request('POST', '/echo', {}, LARGE))).status).toBe(200)
  })

  test('counts more than twice the text of a body, because several copies exist for a while', async () => {
    const frame = await serving(Promise.resolve())
    const others = new MemoryShare()
    others.take(Math.floor(getHeapStatistics().heap_size_limit / 2) - 2 * LARGE.length)
    try {
      expect((await frame.ask(request('POST', '/echo', {}, LARGE))).status).toBe(503)
    } finally {
      others.giveBack()
    }
  })

  test('is taken until the handler has ended, also after the client has left', async () => {
    const done = deferred()
    const frame = await serving(done.promise)
    const isFree = () => {
      const share = new MemoryShare()
      try {
        // Granted only if no other request takes memory.
        return share.take(FULL)
      } finally {
        share.giveBack()
      }
    }
    expect(isFree()).toBe(true)
    const client = await frame.client()
    client.send(request('POST', '/echo', {}, LARGE))
    await expect.poll(isFree, EVENTUALLY).toBe(false)
    client.socket.resetAndDestroy()
    await expect.poll(() => frame.done, EVENTUALLY).toHaveLength(1)
    expect(isFree()).toBe(false)
    done.resolve()
    await expect.poll(isFree, EVENTUALLY).toBe(true)
  })

  test('is 413 for a request that needs more than the heap can ever give', async () => {
    const frame = await serve([
      {
        method: 'POST',
        path: '/echo',
        async handle(req, res) {
          req.memory.require(FULL)
          answer(res, 200, '{}')
        },
      },
    ])
    const refused = await frame.ask(request('POST', '/echo', {}, LARGE))
    expect(refused.status).toBe(413)
    expect(errorOf(refused).details).toEqual({ field: 'body', reason: 'memory' })
  })
})

describe('a client that stops in the middle of its body', () => {
  const halfway = async () => {
    const read = deferred()
    const thrown: unknown[] = []
    const frame = await serve([
      {
        method: 'POST',
        path: '/echo',
        async handle(req, res) {
          req.once('data', () => read.resolve())
          await readJson(req, res, MAX).catch((error: unknown) => thrown.push(error))
        },
      },
    ])
    const client = await frame.client()
    client.send(request('POST', '/echo', { 'Content-Length': '100' }))
    client.send('{"a"')
    await read.promise
    return { frame, client, thrown }
  }

  test('is answered 400 if it only ends its sending side', async () => {
    const { frame, client } = await halfway()
    client.socket.end()
    const result = await client.answer()
    expect(result.status).toBe(400)
    expect(errorOf(result).code).toBe('invalid_request')
    expect(frame.log).toEqual([])
  })

  test('has status 0 and no log line if it resets the connection', async () => {
    const { frame, client, thrown } = await halfway()
    client.socket.resetAndDestroy()
    await expect.poll(() => frame.done, EVENTUALLY).toMatchObject([{ route: '/echo', status: 0 }])
    // The handler must end too, instead of waiting for the rest of the body.
    await expect.poll(() => thrown, EVENTUALLY).toHaveLength(1)
    expect(frame.log).toEqual([])
  })
})
