import { EventEmitter, once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { answer } from '../../../src/http/message/respond.ts'
import { UnsentResponses } from '../../../src/http/message/unsent-responses.ts'
import { EVENTUALLY, serve } from '../frame.ts'
import { request } from '../raw-client.ts'

const MIB = 1_048_576
/** One string for all answers, because held answers are counted and not copied. */
const LARGE = `"${'x'.repeat(4 * MIB)}"`

test('a client that does not read 140 answers of 4 MiB is disconnected, and another one is not', async () => {
  let asked = 0
  const frame = await serve([
    {
      method: 'GET',
      path: '/large',
      async handle(_request, response) {
        asked += 1
        await Promise.resolve()
        answer(response, 200, LARGE)
      },
    },
  ])
  const large = request('GET', '/large')
  const slow = await frame.client()
  slow.socket.pause()
  slow.send(large)
  await expect.poll(() => asked, EVENTUALLY).toBe(1)
  const greedy = await frame.client()
  greedy.socket.pause()
  greedy.send(Buffer.concat(Array.from({ length: 140 }, () => large)))
  await expect.poll(() => asked, EVENTUALLY).toBe(141)
  greedy.socket.resume()
  expect((await greedy.closed()).length).toBeLessThan(140 * LARGE.length)

  slow.socket.resume()
  expect((await slow.answer()).body).toHaveLength(LARGE.length)
  expect((await frame.ask(large)).status).toBe(200)
})

test('UnsentResponses no longer counts answers that were read or whose connection is closed', async () => {
  const unsent = new UnsentResponses(100)
  const hold = (socket: Socket, bytes: number) => {
    const response = Object.assign(new EventEmitter(), { req: { socket } })
    const isHeld = unsent.hold(response as unknown as ServerResponse, bytes)
    return { isHeld, read: () => response.emit('finish') }
  }
  const [reads, gone, greedy, other] = [new Socket(), new Socket(), new Socket(), new Socket()]
  for (const socket of [greedy, other]) socket.on('error', () => undefined)
  for (let i = 0; i < 3; i++) {
    const { isHeld, read } = hold(reads, 100)
    expect(isHeld).toBe(true)
    read()
  }
  expect(hold(gone, 50).isHeld).toBe(true)
  gone.destroy()
  await once(gone, 'close')
  const most = hold(greedy, 90)
  expect(most.isHeld).toBe(true)
  expect([hold(other, 20).isHeld, greedy.destroyed]).toEqual([true, true])
  expect(hold(greedy, 1).isHeld).toBe(false)
  expect([hold(other, 80).isHeld, other.destroyed]).toEqual([true, false])
  most.read()
  expect(hold(reads, 1).isHeld).toBe(true)
  expect([reads.destroyed, other.destroyed]).toEqual([false, true])
})
