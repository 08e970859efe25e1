import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { Gateway } from '../support/gateway.ts'
import { createVhost, type Vhost } from '../support/rabbit.ts'

let vhost: Vhost
beforeAll(async () => {
  vhost = await createVhost()
})
afterAll(() => vhost?.drop())

async function withHeapOf(megabytes: number): Promise<Gateway> {
  const env = { NODE_OPTIONS: `--max-old-space-size=${megabytes}` }
  const gateway = await Gateway.start({ amqpUrl: vhost.url, env })
  onTestFinished(() => gateway.dispose())
  return gateway
}

const LARGE = { type: 'large.job', args: ['x'.repeat(1_900_000)], options: { queue: 'large' } }
const ROUNDS = 2
const CLIENTS = 80

const reasonIn = (text: string) => /"reason":"(\w+)"/.exec(text)?.[1]

it('a heap of 256 MB refuses what does not fit, and dies of nothing', {
  timeout: 120_000,
}, async () => {
  const { client } = await withHeapOf(256)
  let accepted = 0
  for (let round = 0; round < ROUNDS; round++) {
    const answers = await Promise.all(Array.from({ length: CLIENTS }, () => client.push(LARGE)))
    for (const { status, headers, text } of answers) {
      if (status === 201) accepted++
      else expect([status, headers['retry-after'], reasonIn(text)]).toEqual([503, '1', 'busy'])
    }
  }
  expect(accepted).toBeGreaterThan(ROUNDS)
  // Ten million objects would take twice this heap.
  const costly = { type: 'large.job', args: [Array.from({ length: 10_000_000 }, () => ({}))] }
  const refused = await client.send('POST', '/ojs/v1/jobs/batch', { jobs: [costly] })
  expect([refused.status, reasonIn(refused.text)]).toEqual([413, 'memory'])

  const { body } = await client.send('GET', '/ojs/v1/queues/large/stats')
  expect(body['stats']).toMatchObject({ available: accepted })
  const asked = { queues: ['large'], count: 100, wait_ms: 10_000 }
  const fetched = await Promise.all(Array.from({ length: 20 }, () => client.fetch(asked)))
  for (const { status } of fetched) expect([200, 503]).toContain(status)
  expect((await client.get('none')).status).toBe(404)
})

it('the jobs that workflows begin with are not all under way at once', {
  timeout: 120_000,
}, async () => {
  const { client } = await withHeapOf(160)
  const jobs = Array.from({ length: 900 }, () => ({ type: 'step.of', args: [] }))
  const options = { queue: 'steps', meta: { text: 'x'.repeat(30_000) } }
  const workflow = { type: 'group', name: 'w', jobs, options }
  const ask = () => client.send('POST', '/ojs/v1/workflows', workflow)
  const answers = await Promise.all(Array.from({ length: 10 }, ask))
  for (const { status } of answers) expect(status).toBe(201)
  expect((await client.get('none')).status).toBe(404)
})
