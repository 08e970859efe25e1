import { Socket } from 'node:net'
import type { Response } from 'express'
import { expect, test } from 'vitest'
import { LongPolls } from '../../../src/http/connection/long-polls.ts'

test('LongPolls opens a poll that is already aborted if the client is gone', () => {
  const socket = new Socket()
  socket.destroy()
  const poll = new LongPolls().open({ req: { socket } } as unknown as Response)
  expect(poll.signal.aborted).toBe(true)
})
