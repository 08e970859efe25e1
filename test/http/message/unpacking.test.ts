import { randomBytes } from 'node:crypto'
import type { Gunzip } from 'node:zlib'
import { deflateSync, gzipSync } from 'node:zlib'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { readJson, readOptionalJson } from '../../../src/http/message/body.ts'
import { BodyBudget } from '../../../src/http/message/body-budget.ts'
import { answer } from '../../../src/http/message/respond.ts'
import type { Route } from '../../../src/http/route.ts'
import { EVENTUALLY, errorOf, type Frame, serve } from '../frame.ts'
import { request } from '../raw-client.ts'

const unpackers: Gunzip[] = []
vi.mock(import('node:zlib'), async (original) => {
  const real = await original()
  const createGunzip = () => {
    const made = real.createGunzip()
    unpackers.push(made)
    return made
  }
  return { ...real, createGunzip }
})
beforeEach(() => {
  unpackers.length = 0
})

const MAX = 100_000
const GZIP = { 'Content-Encoding': 'gzip' }

async function start(budget = new BodyBudget(10 * MAX)): Promise<Frame> {
  const routes: Route[] = [
    {
      method: 'POST',
      path: '/echo',
      async handle(req, res) {
        answer(res, 200, JSON.stringify(await readJson(req, res, MAX, { budget })))
      },
    },
    {
      method: 'POST',
      path: '/command',
      async handle(req, res) {
        answer(res, 200, JSON.stringify(await readOptionalJson(req, res, MAX)))
      },
    },
  ]
  return serve(routes)
}

const post = (body: Buffer, headers: Record<string, string> = GZIP, path = '/echo') =>
  request('POST', path, headers, body)
const textOf = (bytes: number) => `{"a":"${'x'.repeat(bytes - 8)}"}`
const packed = (text: string) => gzipSync(Buffer.from(text))

/** 20 bytes each. */
const EMPTY_MEMBERS = Array.from({ length: 10_000 }, () => packed(''))

/** The request with each byte of its body in a chunk of its own. */
function inBytes(body: Buffer): Buffer {
  const head = request('POST', '/echo', { ...GZIP, 'Transfer-Encoding': 'chunked' })
  const chunks = [...body].map((byte) =>
    Buffer.concat([Buffer.from('1\r\n'), Buffer.from([byte]), Buffer.from('\r\n')]),
  )
  return Buffer.concat([head, ...chunks, Buffer.from('0\r\n\r\n')])
}

describe('a body in gzip', () => {
  test.each([
    ['as a whole', post(packed('{"a":1}'))],
    ['under the old name', post(packed('{"a":1}'), { 'Content-Encoding': ' X-GZIP ' })],
    ['byte by byte', inBytes(packed('{"a":1}'))],
    ['in two members', post(Buffer.concat([packed('{"a"'), packed(':1}')]))],
    ['for a command', post(packed('{"a":1}'), GZIP, '/command')],
  ])('is read as if it were not packed: %s', async (_, bytes) => {
    const frame = await start()
    expect(await frame.ask(bytes)).toMatchObject({ status: 200, body: '{"a":1}' })
  })

  test('counts by what is in it: as large as a body may be is accepted, a byte more is 413', async () => {
    const frame = await start()
    expect((await frame.ask(post(packed(textOf(MAX))))).status).toBe(200)
    const result = await frame.ask(post(packed(textOf(MAX + 1))))
    expect(result.status).toBe(413)
    expect(errorOf(result).details).toMatchObject({ field: 'body', max_bytes: MAX })
  })

  test('may be longer than its content, if that cannot be packed', async () => {
    const frame = await start()
    const text = JSON.stringify({ a: randomBytes(37_000).toString('base64') })
    const body = gzipSync(text.padEnd(MAX), { level: 0 })
    expect(body.length).toBeGreaterThan(MAX)
    expect((await frame.ask(post(body))).status).toBe(200)
  })

  test('is not inflated beyond the limit: 413 before the rest of it has come', async () => {
    const frame = await start()
    const bomb = gzipSync(Buffer.alloc(50_000_000))
    const client = await frame.client()
    client.send(request('POST', '/echo', { ...GZIP, 'Content-Length': String(bomb.length + 1) }))
    client.send(bomb)
    const result = await client.answer()
    expect(result.status).toBe(413)
    const { actual_bytes: actual } = errorOf(result).details ?? {}
    // zlib writes 16 KiB at a time: of 50 MB no more was made than this.
    expect(actual).toBeLessThan(MAX + 20_000)
    expect(unpackers.map(({ destroyed }) => destroyed)).toEqual([true])
  })

  test.each([
    ['not gzip', Buffer.from('{"a":1}')],
    ['deflate', deflateSync('{"a":1}')],
    ['cut off', packed('{"a":1}').subarray(0, -4)],
    ['with bytes behind it', Buffer.concat([packed('{"a":1}'), Buffer.from('{"b":1}')])],
    ['with zeros behind it', Buffer.concat([packed('{"a":1}'), Buffer.alloc(8)])],
    ['of empty members without end', Buffer.concat([packed('{"a":1}'), ...EMPTY_MEMBERS])],
    ['wrong in its check sum', Buffer.concat([packed('{"a":1}').subarray(0, -8), Buffer.alloc(8)])],
  ])('is a 400 if it is %s', async (_, body) => {
    const frame = await start()
    const result = await frame.ask(post(body))
    expect(result.status).toBe(400)
    expect(errorOf(result)).toMatchObject({ code: 'invalid_payload' })
  })

  test('is a 400 as soon as there are bytes behind it, and the connection closes', async () => {
    const frame = await start()
    const client = await frame.client()
    client.send(request('POST', '/echo', { ...GZIP, 'Content-Length': '5000000' }))
    client.send(Buffer.concat([packed('{"a":1}'), Buffer.from('{"b":1}')]))
    expect((await client.answer()).status).toBe(400)
    expect(await client.closed()).toBe('')
  })

  test.each(['br', 'zstd', 'gzip, gzip', 'identity, gzip'])(
    'is a 415 that names what is accepted, in another coding: %s',
    async (coding) => {
      const frame = await start()
      for (const path of ['/echo', '/command']) {
        const result = await frame.ask(post(packed('{}'), { 'Content-Encoding': coding }, path))
        expect(result).toMatchObject({ status: 415, headers: { 'accept-encoding': 'gzip' } })
        expect(errorOf(result).details).toMatchObject({
          field: 'Content-Encoding',
          reason: 'unsupported_compression',
        })
      }
    },
  )

  test('counts in the budget of all bodies, with what unpacks it, until it is read or its client is gone', async () => {
    const budget = new BodyBudget(10 * MAX)
    const frame = await start(budget)
    const body = packed(textOf(50_000))
    const client = await frame.client()
    client.send(request('POST', '/echo', { ...GZIP, 'Content-Length': String(body.length) }))
    client.send(body.subarray(0, -1))
    await expect.poll(() => budget.taken, EVENTUALLY).toBeGreaterThan(100_000)
    client.send(body.subarray(-1))
    expect((await client.answer()).status).toBe(200)
    expect(budget.taken).toBe(0)

    client.send(request('POST', '/echo', { ...GZIP, 'Content-Length': String(body.length) }))
    await expect.poll(() => budget.taken, EVENTUALLY).toBe(65_536)
    client.destroy()
    await expect.poll(() => budget.taken, EVENTUALLY).toBe(0)
  })

  test('of many clients that send nothing is 503 for some of them, not memory without end', async () => {
    const budget = new BodyBudget(3 * 65_536)
    const frame = await start(budget)
    const clients = await Promise.all(Array.from({ length: 10 }, () => frame.client()))
    for (const client of clients) {
      client.send(request('POST', '/echo', { ...GZIP, 'Content-Length': '50' }))
    }
    const answers = await Promise.all(clients.slice(0, -3).map((client) => client.answer()))
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 503))
    expect(budget.taken).toBeLessThanOrEqual(3 * 65_536)
  })
})
