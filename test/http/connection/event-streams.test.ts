import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import type { Request, Response } from 'express'
import { expect, onTestFinished, test } from 'vitest'
import { EventStreams } from '../../../src/http/connection/event-streams.ts'
import type { StreamFilter } from '../../../src/http/message/stream-events.ts'
import { EventRing } from '../../../src/telemetry/event-ring.ts'
import { uuid7 } from '../../../src/uuid.ts'
import { jobRow } from '../job-rows.ts'

const ALL: StreamFilter = { channel: 'all', isMeant: () => true, types: new Set(), form: 'all' }

/** A real server whose every request is a stream of the ring. */
async function served(capacity: number) {
  const ring = new EventRing(capacity, { now: () => 0, wall: () => 0 }, uuid7)
  const streams = new EventStreams(ring, () => ({}))
  const server: Server = createServer((request, response) => {
    const asked = Object.assign(request, {
      requestId: 'r',
      admission: { headers: [] },
      get: (name: string) => (request as IncomingMessage).headers[name],
    })
    streams.follow(asked as unknown as Request, response as unknown as Response, ALL)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  const tell = (count: number) => {
    for (let i = 0; i < count; i++) ring.onJobEvent({ type: 'job.completed', job: jobRow() })
  }
  return { socket, streams, tell }
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

test('a reader who is gone is forgotten', async () => {
  const { socket, streams } = await served(10)
  await once(socket, 'data')
  expect(streams.size).toBe(1)
  socket.destroy()
  await expect.poll(() => streams.size).toBe(0)
})
