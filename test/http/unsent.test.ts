import { expect, test } from 'vitest'
import { answer } from '../../src/http/answer.ts'
import { EVENTUALLY, serve } from './frame.ts'
import { request } from './raw-client.ts'

const MIB = 1_048_576
/** One string for all answers: what is held is counted, not copied. */
const LARGE = `"${'x'.repeat(4 * MIB)}"`

test('who asks for more than can wait for them is cut off, and nobody else', async () => {
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
