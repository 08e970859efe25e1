import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  batch,
  chain,
  group,
  type Handler,
  OJSClient,
  OJSWorker,
  type Workflow,
} from '../../../src/sdk/index.ts'
import { NativeWorker } from '../../../src/worker/index.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { freshQueue, gatewayForAll, withChannel } from '../harness.ts'

const { vhost, gateway } = gatewayForAll()
const TRACEPARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

let queue = ''
let client: OJSClient
const workers: { stop(): Promise<unknown> }[] = []
beforeEach(() => {
  queue = freshQueue()
  client = new OJSClient({ url: gateway.url })
})
afterEach(async () => {
  await Promise.all(workers.splice(0).map((worker) => worker.stop()))
})

const KINDS = {
  'a native worker': () =>
    new NativeWorker({
      url: vhost.url,
      queues: [queue],
      gracePeriod: 0,
      retryQueueSettleMs: 0,
      logger: false,
      handleSignals: false,
    }),
  'a worker over HTTP': () =>
    new OJSWorker({ url: gateway.url, queues: [queue], logger: false, handleSignals: false }),
} as const

async function work(kind: keyof typeof KINDS, handlers: Record<string, Handler>): Promise<void> {
  const worker = KINDS[kind]()
  for (const [type, handler] of Object.entries(handlers)) worker.register(type, handler)
  workers.push(worker)
  await worker.start()
}

async function untilState({ id }: Workflow, state: string): Promise<Workflow> {
  await eventually(async () => (await client.workflows.get(id)).state === state)
  return await client.workflows.get(id)
}

const step = (type: string) => ({ type, args: [], options: { queue } })

describe.each(Object.keys(KINDS) as (keyof typeof KINDS)[])('%s', (kind) => {
  it('runs a chain of the SDK, and each step sees the results of the steps before it', async () => {
    await work(kind, {
      fetch: () => ({ rows: 3 }),
      transform: ({ job }) => ({ given: job['parent_results'] }),
      load: ({ job }) => ({ given: job['parent_results'], of: job['workflow_id'] }),
    })
    const workflow = await client.workflow(chain(step('fetch'), step('transform'), step('load')))
    expect(workflow).toMatchObject({ type: 'chain', state: 'running' })
    const { steps = [] } = await untilState(workflow, 'completed')
    const first = { rows: 3 }
    const second = { given: [first] }
    const third = { given: [first, second], of: workflow.id }
    expect(steps.map(({ result }) => result)).toEqual([first, second, third])
  })

  it('passes on a result of the maximum depth', async () => {
    const deep: unknown = JSON.parse(`${'['.repeat(31)}${']'.repeat(31)}`)
    await work(kind, {
      parse: () => deep,
      render: ({ job }) => job['parent_results'] !== undefined,
    })
    const workflow = await client.workflow(chain(group(step('parse')), step('render')))
    await eventually(async () => (await client.workflows.get(workflow.id)).state !== 'running')
    const { steps = [] } = await client.workflows.get(workflow.id)
    expect(steps.map(({ state, error }) => [state, error])).toEqual([
      ['completed', undefined],
      ['completed', undefined],
    ])
  })

  it('fails a job of a batch, whose on_failure callback gets the results', async () => {
    const heard: unknown[] = []
    await work(kind, {
      good: () => 'good',
      bad: () => {
        throw new Error('no')
      },
      report: ({ job }) => void heard.push(job['parent_results']),
    })
    const bad = { type: 'bad', args: [], options: { queue, retry: { max_attempts: 1 } } }
    const callbacks = { onFailure: step('report'), onSuccess: step('never') }
    const workflow = await client.workflow(batch([step('good'), bad], callbacks))
    const done = await untilState(workflow, 'completed')
    expect(done).toMatchObject({ failed_step_id: '1', jobs_completed: 1 })
    expect(heard).toEqual([['good', null]])
  })

  it('runs a workflow that is cancelled; a native worker aborts its job', async () => {
    let began = () => {}
    const running = new Promise<void>((resolve) => {
      began = resolve
    })
    let isAborted = false
    await work(kind, {
      endless: ({ signal }) => {
        began()
        return new Promise((resolve) => {
          signal.addEventListener('abort', () => {
            isAborted = true
            resolve(null)
          })
        })
      },
    })
    const workflow = await client.workflow(group(step('endless'), step('endless')))
    await running
    await client.workflows.cancel(workflow.id)
    // A worker over HTTP would learn of the cancellation only with its next heartbeat.
    if (kind === 'a native worker') await eventually(() => isAborted)
    expect(await untilState(workflow, 'cancelled')).toMatchObject({ jobs_completed: 0 })
  })
})

describe('the SDK', () => {
  it('runs a graph of steps', async () => {
    await work('a worker over HTTP', {
      a: () => 1,
      b: () => 2,
      sum: ({ job }) => {
        const { x, y } = job['parent_results'] as { x: number; y: number }
        return x + y
      },
    })
    const workflow = await client.workflow({
      name: 'sum',
      steps: [
        { id: 'x', type: 'a', args: [] },
        { id: 'y', type: 'b', args: [] },
        { id: 'z', type: 'sum', args: [], depends_on: ['x', 'y'] },
      ],
      options: { queue },
    })
    const { steps = [] } = await untilState(workflow, 'completed')
    expect(steps[2]).toMatchObject({ id: 'z', result: 3, depends_on: ['x', 'y'] })
  })
})

describe('the job message of a step', () => {
  it('carries the trace of the request that created the workflow, and the results before it', async () => {
    const steps = [step('one'), step('two')]
    const body = { type: 'chain', steps }
    const { status } = await gateway.request('POST', '/ojs/v1/workflows', body, {
      traceparent: TRACEPARENT,
      tracestate: 'vendor=1',
    })
    expect(status).toBe(201)
    const [first] = await gateway.fetch([queue], { wait_ms: 15_000 })
    expect(first.meta).toMatchObject({ traceparent: TRACEPARENT })
    await gateway.ack(first.id, { result: 'r' })
    await withChannel(vhost.url, async (channel) => {
      let found = await channel.get(`ojs.queue.${queue}`)
      await eventually(async () => {
        if (found === false) found = await channel.get(`ojs.queue.${queue}`)
        return found !== false
      })
      if (found === false) throw new Error('no job message came')
      expect(found.properties.headers).toMatchObject({
        'x-ojs-trace-id': TRACEPARENT,
        'x-ojs-trace-state': 'vendor=1',
        'x-ojs-attempt': 1,
      })
      const jobMessage = JSON.parse(found.content.toString())
      expect(jobMessage).toMatchObject({ type: 'two', parent_results: ['r'], workflow_step: '1' })
    })
  })
})
