import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { push } from '../../src/operations/enqueue/push.ts'
import { fetch, giveBack } from '../../src/operations/fetch/fetch.ts'
import { Authority, type Certificate } from '../support/gateway/certificates.ts'
import { deferred } from '../support/time/deferred.ts'
import { openDoor } from './door.ts'
import { EVENTUALLY } from './frame.ts'
import { jobRow } from './job-rows.ts'
import { request } from './raw-client.ts'

vi.mock('../../src/operations/fetch/fetch.ts')
vi.mock('../../src/operations/enqueue/push.ts')

let authority: Authority
let own: Certificate
beforeAll(() => {
  authority = new Authority()
  own = authority.issue('gateway')
})
afterAll(() => authority.remove())

const PUSH = request('POST', '/ojs/v1/jobs', {}, '{"type":"a.b","args":[]}')
const FETCH = request('POST', '/ojs/v1/workers/fetch', {}, '{"queues":["q"]}')

test.each(['http', 'https'])(
  'a client that closes its side after its request gets the answer, over %s',
  async (scheme) => {
    const confirmed = deferred()
    vi.mocked(push).mockImplementation(async () => {
      await confirmed.promise
      return { job: jobRow({ id: 'a' }) }
    })
    const isTls = scheme === 'https'
    const door = await openDoor(undefined, isTls ? { tls: own } : {})
    const tls = isTls ? { ca: authority.ca.cert } : undefined
    const client = await door.client(tls)
    // Both are answered, in their order, and only the last one announces the end.
    client.send(Buffer.concat([PUSH, PUSH]))
    client.socket.end()
    await expect.poll(() => vi.mocked(push).mock.calls.length, EVENTUALLY).toBe(2)
    // The answer to another client shows that the gateway has seen what came before.
    const other = await door.client(tls)
    other.send(request('GET', '/ojs/manifest'))
    await other.answer()
    confirmed.resolve()
    const answers = [await client.answer(), await client.answer()]
    expect(answers.map(({ status }) => status)).toEqual([201, 201])
    expect(answers[1]?.headers).toMatchObject({ connection: 'close' })
    expect(await client.closed()).toBe('')
    vi.mocked(push).mockReset()
  },
)

test('a FETCH whose client closes its side while it waits is answered at once, without jobs', async () => {
  vi.mocked(giveBack).mockResolvedValue()
  vi.mocked(fetch).mockImplementation(async (_deps, _body, _context, signal) => {
    await new Promise((resolve) => signal.addEventListener('abort', resolve))
    return [jobRow({ id: 'a' })]
  })
  const door = await openDoor()
  const client = await door.client()
  client.send(FETCH)
  client.socket.end()
  const { status, body } = await client.answer()
  expect([status, body]).toEqual([200, '{"jobs":[]}'])
  expect(await client.closed()).toBe('')
  expect(vi.mocked(giveBack).mock.calls).toMatchObject([[{}, [{ id: 'a' }]]])
})

test('a client that closes its side within its body is told so, and disconnected', async () => {
  const door = await openDoor()
  const client = await door.client()
  client.send(PUSH.subarray(0, -5))
  client.socket.end()
  expect((await client.answer()).status).toBe(400)
  expect(await client.closed()).toBe('')
})

test('a client that closes its side without a request is disconnected', async () => {
  const door = await openDoor()
  const client = await door.client()
  client.socket.end()
  expect(await client.closed()).toBe('')
})
