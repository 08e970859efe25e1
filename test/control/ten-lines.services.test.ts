import { readFileSync } from 'node:fs'
import { v7 } from 'uuid'
import { afterEach, expect, it } from 'vitest'
import {
  deadLetters,
  fetchOne,
  freshQueue,
  gatewayForAll,
  storyOf,
  untilState,
} from '../operations/harness.ts'
import { type PythonProgram, startPython } from '../support/broker/pika.ts'
import { connectControl } from '../support/gateway/control.ts'
import { eventually } from '../support/gateway/in-process.ts'
import { AheadClock } from '../support/time/ahead-clock.ts'

const clock = new AheadClock()

const { vhost, gateway } = gatewayForAll({}, { clock })

const DOCUMENT = new URL('../../docs/reference/control-protocol.md', import.meta.url)
const EXAMPLE = /```python\n(.*?)```/s.exec(readFileSync(DOCUMENT, 'utf8'))?.[1]
if (EXAMPLE === undefined) throw new Error('the document has no example')

const RUN = `
class Broken(Exception): pass
class Mute(Exception):
    def __str__(self): raise ValueError('no text')
def run(job):
    if job['args'][0] == 'break': raise Broken('no route')
    if job['args'][0] == 'mute': raise Mute()
    if job['args'][0] == 'spoil':
        job['args'].append({1})
        raise Broken('spoilt')
    if job['args'][0] == 'give': return eval(job['args'][1])
    return {'doubled': job['args'][0] * 2}
`

let worker: PythonProgram | undefined
afterEach(() => worker?.end())

function startWorker(queue: string): void {
  worker = startPython(`${RUN}\n${EXAMPLE}`, { AMQP_URL: vhost.url, OJS_QUEUE: queue })
}

const options = (over: object) => ({ options: over })

it('the worker of docs/reference/control-protocol.md, as printed, completes a job visibly over HTTP', async () => {
  const queue = freshQueue()
  const { body } = await gateway.push(queue, { args: [21] })
  startWorker(queue)
  const job = await untilState(gateway, body.job.id, 'completed')
  expect(job).toMatchObject({ attempt: 1, result: { doubled: 42 } })
  expect(await storyOf(gateway, queue, job.id)).toEqual([
    'job.enqueued',
    'job.started',
    'job.completed',
  ])
})

it('the worker of docs/reference/control-protocol.md reports the headers and priority of a failed native job', async () => {
  const queue = freshQueue()
  await gateway.push(queue, { args: [1] })
  startWorker(queue)
  const id = v7()
  const retry = { initial_interval_ms: 100, jitter: false }
  const headers = {
    'x-ojs-max-attempts': 2,
    'x-ojs-tags': 'a',
    'x-snowflake': 2 ** 60,
    'x-blob': Buffer.of(1),
  }
  const content = Buffer.from(
    JSON.stringify({ id, type: 'test.job', queue, args: ['break'], retry }),
  )
  const client = await connectControl(vhost.url)
  client.channel.publish('ojs.exchange.direct', queue, content, { headers, priority: 4 })
  await client.channel.waitForConfirms()
  await client.close()
  await eventually(async () => (await gateway.get(id)).status === 200)
  const job = await untilState(gateway, id, 'discarded')
  expect(job).toMatchObject({ attempt: 2, max_attempts: 2, tags: ['a'], priority: 4 })
})

it('failures of the worker of docs/reference/control-protocol.md are retried, and end as dead letters', async () => {
  const queue = freshQueue()
  const retry = { max_attempts: 2, initial_interval_ms: 100, jitter: false }
  const { body } = await gateway.push(queue, { args: ['break'], ...options({ retry }) })
  startWorker(queue)
  const job = await untilState(gateway, body.job.id, 'discarded')
  expect(job).toMatchObject({
    attempt: 2,
    error: { code: 'handler_error', type: 'Broken', message: 'Broken: no route' },
  })
  expect(job.errors.map(({ attempt }: { attempt: number }) => attempt)).toEqual([1, 2])
  expect((await deadLetters(gateway, `queue=${queue}`)).jobs).toHaveLength(1)
})

it('the worker of docs/reference/control-protocol.md survives what its handler returns and raises', async () => {
  const queue = freshQueue()
  const once = options({ retry: { max_attempts: 1 } })
  const cyclic = '(lambda a: a.append(a) or a)([])'
  const unspeakable = ["float('nan')", '{1}', 'object()', '{(1, 2): 3}', cyclic]
  const bad = [
    ...unspeakable.map((text) => ['give', text]),
    ['mute'],
    ['spoil'],
    ['give', 'exit(3)'],
  ]
  const ids: string[] = []
  for (const args of bad) ids.push((await gateway.push(queue, { args, ...once })).body.job.id)
  const good = await gateway.push(queue, { args: ['give', '[None, 2**53 - 1, {"a": 0.5}]'] })
  startWorker(queue)
  const last = await untilState(gateway, good.body.job.id, 'completed')
  expect(last).toMatchObject({ result: [null, 2 ** 53 - 1, { a: 0.5 }] })
  const types: string[] = []
  for (const id of ids) {
    const job = await untilState(gateway, id, 'discarded')
    expect(job).toMatchObject({ attempt: 1, error: { code: 'handler_error' } })
    types.push(job.error.type)
  }
  const raised = ['ValueError', 'TypeError', 'TypeError', 'TypeError', 'ValueError']
  expect(types).toEqual([...raised, 'Mute', 'Broken', 'SystemExit'])
})

it('a job that the worker of docs/reference/control-protocol.md failed can succeed over HTTP', async () => {
  const queue = freshQueue()
  // Longer than the delay of any retry queue, so the ledger holds the job by the gateway's clock.
  const retry = { max_attempts: 3, initial_interval: 'PT1H', max_interval: 'PT1H', jitter: false }
  const { body } = await gateway.push(queue, { args: ['break'], ...options({ retry }) })
  startWorker(queue)
  await untilState(gateway, body.job.id, 'retryable')
  await worker?.end()
  clock.aheadMs += 3_600_000
  const job = await fetchOne(gateway, queue)
  expect(job).toMatchObject({ id: body.job.id, attempt: 2 })
  expect((await gateway.ack(job.id)).status).toBe(200)
})
