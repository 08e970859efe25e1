import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import type { Request, Response } from 'express'
import { expect, onTestFinished, test } from 'vitest'
import { EventStreams } from '../../../src/http/connection/event-streams.ts'
import type { StreamFilter } from '../../../src/http/message/stream-events.ts'
import { EventRing } from '../../../src/telemetry/event-ring.ts'
import { uuid7 } from '../../../src/uuid.ts'
import { jobRow } from '../job-rows.ts'

const ALL: StreamFilter = { channel: 'all', isMeant: () => true, types: new Set(), form: 'all' }

/** A real server whose every request is a stream of the ring, and its first reader. */
async function served(
  capacity: number,
  patience?: { stuckMs: number; lastWordMs: number },
  filter = ALL,
) {
  const ring = new EventRing(capacity, { now: () => 0, wall: () => 0 }, uuid7)
  const streams = new EventStreams(ring, () => ({}), patience)
  const responses: ServerResponse[] = []
  const server: Server = createServer((request, response) => {
    responses.push(response)
    const asked = Object.assign(request, {
      requestId: 'r',
      admission: { headers: [] },
      get: (name: string) => (request as IncomingMessage).headers[name],
    })
    streams.follow(asked as unknown as Request, response as unknown as Response, filter)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const open = () => {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
    onTestFinished(() => void socket.destroy())
    socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    return socket
  }
  const socket = open()
  const tell = (count: number, type = 'a') => {
    const job = jobRow({ type })
    for (let i = 0; i < count; i++) ring.onJobEvent({ type: 'job.completed', job })
  }
  const cancelled = () =>
    ring.onJobEvent({ type: 'job.cancelled', job: jobRow(), previousState: 'active' })
  return { socket, streams, tell, cancelled, open, responses }
}

const LARGE = 'x'.repeat(100_000)

/** Reads what comes: how many events, and the end of the text. */
function reading(socket: Socket): { events: number; cancelled: number; tail: string } {
  const read = { events: 0, cancelled: 0, tail: '' }
  socket.on('data', (chunk) => {
    const lines = `${read.tail}${chunk}`.split('\n')
    read.events += lines.slice(0, -1).filter((line) => line === 'event: job.completed').length
    read.cancelled += lines.filter((line) => line === 'event: job.cancelled').length
    read.tail = lines.at(-1) ?? ''
  })
  return read
}

test('a reader who falls behind the ring is told how many events are gone, and goes on with the next', async () => {
  const { socket, tell } = await served(10)
  await once(socket, 'data')
  tell(35)
  let text = ''
  socket.on('data', (chunk) => {
    text += chunk
  })
  await expect.poll(() => text.split('event: job.completed').length - 1).toBe(10)
  expect(text).toContain('event: system.events_dropped\ndata: {"channel":"all","dropped_count":25')
  tell(1)
  await expect.poll(() => text.split('event: job.completed').length - 1).toBe(11)
})

test.each([
  ['job.complete', 0],
  ['job.completed', 3],
  ['job.c*', 3],
  ['*', 3],
])('a reader who asks for %s gets %i events', async (type, count) => {
  const filter = { ...ALL, types: new Set([type, 'job.cancelled']) }
  const { socket, tell, streams, cancelled } = await served(10, undefined, filter)
  const read = reading(socket)
  await expect.poll(() => streams.size).toBe(1)
  tell(3)
  cancelled()
  await expect.poll(() => read.cancelled).toBe(1)
  expect(read.events).toBe(count)
})

test('a reader who is gone is forgotten', async () => {
  const { socket, streams } = await served(10)
  await once(socket, 'data')
  expect(streams.size).toBe(1)
  socket.destroy()
  await expect.poll(() => streams.size).toBe(0)
})

test('a reader who does not read is dropped; it costs no more than one event, and others miss none', async () => {
  const patience = { stuckMs: 500, lastWordMs: 50 }
  const { socket, streams, tell, open, responses } = await served(1_000, patience)
  await expect.poll(() => streams.size).toBe(1)
  const other = reading(open())
  await expect.poll(() => streams.size).toBe(2)
  const [stuck, fine] = responses
  let told = 0
  let most = 0
  const isBlocked = () => {
    // More than any two kernel buffers hold, in steps that the other reader can follow.
    if (other.events === told) {
      tell(40, LARGE)
      told += 40
    }
    most = Math.max(most, stuck?.writableLength ?? 0)
    return stuck?.writableNeedDrain === true && other.events > 0
  }
  await expect.poll(isBlocked).toBe(true)
  await expect.poll(() => streams.size).toBe(1)
  expect(stuck?.destroyed).toBe(true)
  expect(most).toBeLessThan(3 * LARGE.length)
  socket.destroy()
  await expect.poll(() => other.events).toBe(told)
  tell(5)
  await expect.poll(() => other.events).toBe(told + 5)
  expect(fine?.writableEnded).toBe(false)
})

test('a reader who reads again after it was dropped is told why', async () => {
  const patience = { stuckMs: 200, lastWordMs: 600_000 }
  const { socket, tell, responses } = await served(1_000, patience)
  await expect.poll(() => responses.length).toBe(1)
  tell(400, LARGE)
  await expect.poll(() => responses[0]?.writableEnded).toBe(true)
  let text = ''
  socket.on('data', (chunk) => {
    text = (text + chunk).slice(-1_000)
  })
  const word = 'event: system.slow_reader\ndata: {"stuck_ms":200}\n\n'
  await expect.poll(() => text).toContain(word)
  await expect.poll(() => text.endsWith('\r\n0\r\n\r\n')).toBe(true)
})
