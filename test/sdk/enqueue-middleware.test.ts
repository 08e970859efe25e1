import { describe, expect, test, vi } from 'vitest'
import { type EnqueueMiddleware, type EnqueueRequest, OJSClient } from '../../src/sdk/index.ts'
import { mockTransport, stored } from './mock-transport.ts'

function accepting() {
  return mockTransport((request) => {
    const { jobs } = request.body as { jobs?: EnqueueRequest[] }
    return { status: 201, body: jobs ? { jobs } : { job: stored(request) } }
  })
}

describe('enqueue middleware', () => {
  test('may set members to undefined, which are then not sent', async () => {
    const transport = accepting()
    const client = new OJSClient({ transport })
    const settings: { meta?: Record<string, unknown>; schema?: string; queue?: string } = {}
    client.use((request, next) => {
      request.meta = settings.meta
      request.schema = settings.schema
      request.options.queue = settings.queue
      return next()
    })
    await client.enqueue('test.job', [], { id: 'a' })
    const [sent] = transport.requests
    expect(JSON.parse(JSON.stringify(sent?.body))).toEqual({
      id: 'a',
      type: 'test.job',
      args: [],
      options: {},
    })
  })

  test('wraps the request, first registered outermost', async () => {
    const transport = accepting()
    const order: string[] = []
    const noting =
      (name: string): EnqueueMiddleware =>
      async (_request, next) => {
        order.push(`${name}-before`)
        const job = await next()
        order.push(`${name}-after of ${transport.requests.length}`)
        return job
      }
    await new OJSClient({ transport }).use(noting('first')).use(noting('second')).enqueue('t')
    expect(order).toEqual([
      'first-before',
      'second-before',
      'second-after of 1',
      'first-after of 1',
    ])
  })

  test("may add to meta before the request is sent, as in seed 004's example", async () => {
    const transport = accepting()
    const client = new OJSClient({ transport })
    client.use(async (request, next) => {
      request.meta ??= {}
      request.meta['trace_id'] = `trace of ${request.id}`
      return await next(request)
    })
    const job = await client.enqueue('t', [1], { meta: { kept: true } })
    expect(job.meta).toEqual({ kept: true, trace_id: `trace of ${job.id}` })
  })

  test('may change options of the request, and can be removed by name', async () => {
    const transport = accepting()
    const client = new OJSClient({ transport })
    client.use('queue', async (request, next) => {
      request.options.queue ??= `by-type.${request.type}`
      await next()
    })
    expect(await client.enqueue('t')).toMatchObject({ queue: 'by-type.t' })
    expect(await client.enqueue('t', [], { queue: 'own' })).toMatchObject({ queue: 'own' })
    expect(client.middleware.remove('queue')).toBe(true)
    expect(await client.enqueue('t')).toMatchObject({ queue: 'default' })
  })

  test('rejects the enqueue and sends nothing if it throws', async () => {
    const transport = accepting()
    const client = new OJSClient({ transport }).use(() => {
      throw new Error('not today')
    })
    await expect(client.enqueue('t')).rejects.toThrow('not today')
    expect(transport.requests).toEqual([])
  })

  test('must return a job if it does not call next()', async () => {
    const transport = accepting()
    const job = {
      id: '1',
      type: 't',
      queue: 'q',
      args: [],
      state: 'completed',
      attempt: 1,
    } as const
    const keeping = new OJSClient({ transport }).use(() => ({ ...job, args: [] }))
    expect(await keeping.enqueue('t')).toEqual(job)
    const losing = new OJSClient({ transport }).use(() => {})
    await expect(losing.enqueue('t')).rejects.toThrow(/neither called next\(\) nor returned a job/)
    expect(transport.requests).toEqual([])
  })
})

describe('enqueue middleware with a batch', () => {
  const lastFirst: EnqueueMiddleware = async (request, next) => {
    // The later its place in the batch, the fewer turns a job waits.
    for (let i = 0; i < 10 - Number(request.args[0]); i += 1) await undefined
    request.meta = { place: request.args[0] }
    await next()
  }

  test('runs for every job, and the batch keeps its order although later jobs are ready first', async () => {
    const transport = accepting()
    const jobs = await new OJSClient({ transport })
      .use(lastFirst)
      .enqueueBatch([0, 1, 2].map((place) => ({ type: 't', args: place })))
    expect(transport.only.path).toBe('/jobs/batch')
    expect(transport.only.body).toMatchObject({
      jobs: [{ args: [0] }, { args: [1] }, { args: [2] }],
    })
    expect(jobs.map(({ meta }) => meta?.['place'])).toEqual([0, 1, 2])
  })

  test('sends no job if it throws for one', async () => {
    const transport = accepting()
    const client = new OJSClient({ transport }).use(lastFirst).use(async (request, next) => {
      if (request.args[0] === 1) throw new Error('not this one')
      return await next()
    })
    const specs = [0, 1, 2].map((place) => ({ type: 't', args: place }))
    await expect(client.enqueueBatch(specs)).rejects.toThrow('not this one')
    expect(transport.requests).toEqual([])
  })

  test('sends the other jobs if it returns one without calling next()', async () => {
    const transport = accepting()
    const kept = { id: 'kept', type: 't', queue: 'q', args: [], state: 'completed', attempt: 1 }
    const client = new OJSClient({ transport }).use(async (request, next) =>
      request.args[0] === 1 ? { ...kept, state: 'completed' } : await next(),
    )
    const specs = [0, 1, 2].map((place) => ({ type: 't', args: place }))
    const jobs = await client.enqueueBatch(specs)
    expect(jobs.map(({ args }) => args)).toEqual([[0], [], [2]])
    expect((transport.only.body as { jobs: unknown[] }).jobs).toHaveLength(2)
  })

  test('sends nothing if it calls next() for no job', async () => {
    const transport = accepting()
    const client = new OJSClient({ transport }).use(() => ({
      id: 'kept',
      type: 't',
      queue: 'q',
      args: [],
      state: 'completed',
      attempt: 1,
    }))
    expect(await client.enqueueBatch([{ type: 't' }, { type: 't' }])).toHaveLength(2)
    expect(transport.requests).toEqual([])
  })

  test('rejects with kind aborted at the signal when it deadlocks by taking jobs one at a time', async () => {
    const transport = accepting()
    let last: Promise<unknown> = Promise.resolve()
    const client = new OJSClient({ transport }).use((_request, next) => {
      const turn = last.then(() => next())
      last = turn.catch(() => undefined)
      return turn
    })
    const controller = new AbortController()
    const { signal } = controller
    const batch = client.enqueueBatch([{ type: 't' }, { type: 't' }], { signal })
    const settled = Promise.allSettled([batch])
    await new Promise((resolve) => setImmediate(resolve))
    controller.abort(new Error('enough'))
    const rejection = { name: 'OJSTransportError', kind: 'aborted', cause: { message: 'enough' } }
    expect(await settled).toMatchObject([{ status: 'rejected', reason: rejection }])
    await last
    await expect(client.enqueueBatch([{ type: 't' }], { signal })).rejects.toMatchObject(rejection)
    expect(transport.requests).toEqual([])
  })

  test('removes its listener from the signal after the batch', async () => {
    const { signal } = new AbortController()
    const added = vi.spyOn(signal, 'addEventListener')
    const removed = vi.spyOn(signal, 'removeEventListener')
    const client = new OJSClient({ transport: accepting() })
    await client.enqueueBatch([{ type: 't' }, { type: 't' }], { signal })
    await client.enqueueBatch([], { signal })
    expect(added).toHaveBeenCalledOnce()
    expect(removed).toHaveBeenCalledOnce()
  })

  test('causes no leak warning of Node.js when 20 batches share one signal', async () => {
    const warned = vi.spyOn(process, 'emitWarning').mockReturnValue()
    const { signal } = new AbortController()
    const client = new OJSClient({ transport: accepting() }).use(async (_request, next) => {
      await new Promise((resolve) => setImmediate(resolve))
      return await next()
    })
    const batches = Array.from({ length: 20 }, () =>
      client.enqueueBatch([{ type: 't' }], { signal }),
    )
    await Promise.all(batches)
    expect(warned).not.toHaveBeenCalled()
    warned.mockRestore()
  })
})
