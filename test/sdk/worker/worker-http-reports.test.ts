import { describe, expect, it } from 'vitest'
import { OJSError, OJSTransportError } from '../../../src/sdk/transport/errors.ts'
import type { JobContext } from '../../../src/sdk/worker/execution.ts'
import { deferred } from '../../support/time/deferred.ts'
import { conflict, elapse, networkError, newServer, useHttpWorkers } from '../http-worker.ts'

const { startWorker } = useHttpWorkers()

describe('reports of an HTTP worker', () => {
  it('name the id of the fetched job even if the handler changes job.id', async () => {
    const { transport } = newServer([{ id: 'job-of-server' }])
    await startWorker(transport, ({ job }) => Object.assign(job, { id: 'mine' }))
    await elapse(6_000)
    expect(transport.acks).toMatchObject([{ job_id: 'job-of-server' }])
    expect(transport.heartbeats.at(-1)).toMatchObject({ active_job_ids: [] })
  })
})

describe('ACK and NACK of an HTTP worker', () => {
  it('name the job, the worker and the attempt', async () => {
    const { transport } = newServer([
      { id: 'good', attempt: 3 },
      { id: 'bad', attempt: 2 },
    ])
    await startWorker(transport, ({ job }) => {
      if (job.id === 'bad') throw new Error('boom')
      return { delivered: true }
    })
    await elapse()
    expect(transport.acks).toEqual([
      {
        job_id: 'good',
        worker_id: 'worker_1',
        attempt: 3,
        generation: 0,
        result: { delivered: true },
      },
    ])
    expect(transport.nacks).toEqual([
      {
        job_id: 'bad',
        worker_id: 'worker_1',
        attempt: 2,
        generation: 0,
        error: {
          code: 'handler_error',
          type: 'Error',
          message: 'boom',
          retryable: true,
          details: { stack: expect.any(String) },
        },
      },
    ])
  })

  it.each([
    ['that of the FETCH', 2, 2],
    ['0 where the FETCH named none', undefined, 0],
    ["0 where the member is data of the producer's, which another server passes on", 'blue', 0],
    ['0 where the member is no number of a life', 1.5, 0],
  ])('name the generation: %s', async (_what, generation, named) => {
    // As a server may answer it, whatever `Job` says.
    const job: object = { attempt: 1, ...(generation !== undefined && { generation }) }
    const { transport } = newServer([
      { id: 'good', ...job },
      { id: 'bad', ...job },
    ])
    await startWorker(transport, ({ job }) => {
      job.generation = 9
      if (job.id === 'bad') throw new Error('boom')
    })
    await elapse()
    const lease = { worker_id: 'worker_1', attempt: 1, generation: named }
    expect(transport.acks).toEqual([{ job_id: 'good', ...lease }])
    expect(transport.nacks).toMatchObject([{ job_id: 'bad', ...lease }])
  })

  it('are sent only after the handler has ended', async () => {
    const { transport } = newServer([{}])
    const handler = deferred()
    await startWorker(transport, () => handler.promise)
    await elapse(5_000)
    expect(transport.acks).toEqual([])
    handler.resolve()
    await elapse()
    expect(transport.acks).toHaveLength(1)
    expect(transport.acks[0]).not.toHaveProperty('result')
  })

  it('are not repeated on a 409, which neither stops the worker nor fails the job', async () => {
    const { transport } = newServer([{}, {}])
    transport.scripts['/workers/ack'] = () => {
      throw conflict('available')
    }
    const { worker, logger } = await startWorker(transport, () => 1)
    await elapse(60_000)
    expect(transport.acks).toHaveLength(2)
    expect(transport.nacks).toEqual([])
    expect(worker).toMatchObject({ state: 'running', activeJobs: 0 })
    expect(logger.warn).toHaveBeenCalledTimes(2)
    expect(logger.error).not.toHaveBeenCalled()
  })

  it.each([
    ['does not know the job any more', 404, 'not_found', []],
    ['cannot take the result', 422, 'unsupported', [{ error: { type: 'ResultError' } }]],
  ])('are not repeated if the server %s', async (_what, status, code, nacks) => {
    const { transport } = newServer([{}])
    transport.scripts['/workers/ack'] = () => {
      throw new OJSError({ code, message: 'No.', status })
    }
    await startWorker(transport, () => 1)
    await elapse(20_000)
    expect(transport.acks).toHaveLength(1)
    expect(transport.nacks).toMatchObject(nacks)
  })

  it('are repeated unchanged while the server cannot be reached', async () => {
    const { transport } = newServer([{}])
    let tries = 0
    transport.scripts['/workers/ack'] = () => {
      tries += 1
      if (tries < 5) throw tries % 2 ? networkError() : new Error('custom transport')
      return {}
    }
    const { worker, logger } = await startWorker(transport, () => 'result')
    await elapse(15_000)
    expect(tries).toBe(5)
    expect(new Set(transport.acks.map((ack) => JSON.stringify(ack))).size).toBe(1)
    expect(worker.activeJobs).toBe(0)
    expect(logger.error).not.toHaveBeenCalled()
  })

  it('are repeated after a 422 with the retryable code queue_paused', async () => {
    const { transport } = newServer([{}])
    let tries = 0
    transport.scripts['/workers/ack'] = () => {
      tries += 1
      if (tries === 1) throw new OJSError({ code: 'queue_paused', message: 'not now', status: 422 })
      return {}
    }
    await startWorker(transport, () => 'result')
    await elapse(1_000)
    expect(tries).toBe(2)
    expect(transport.nacks).toEqual([])
  })

  it('are not repeated after the lease has ended', async () => {
    const { transport } = newServer([{}])
    transport.scripts['/workers/ack'] = () => {
      throw networkError()
    }
    transport.scripts['/workers/heartbeat'] = () => {
      throw networkError()
    }
    const { worker, logger } = await startWorker(transport, () => 1, { visibilityTimeout: 12_000 })
    await elapse(6_000)
    expect(worker.activeJobs).toBe(1)
    await elapse(6_000)
    expect(worker.activeJobs).toBe(0)
    const message = expect.stringContaining('could not be delivered')
    expect(logger.error).toHaveBeenCalledWith(
      message,
      expect.objectContaining({ report: 'complete' }),
    )
    const tries = transport.acks.length
    await elapse(60_000)
    expect(transport.acks).toHaveLength(tries)
    expect(transport.nacks).toEqual([])
  })

  it('are repeated beyond the visibility timeout if heartbeats extend the lease', async () => {
    const { transport } = newServer([{ id: 'one' }])
    transport.scripts['/workers/ack'] = () => {
      throw networkError()
    }
    transport.scripts['/workers/heartbeat'] = ({ active_job_ids }) => ({
      state: 'running',
      jobs_extended: active_job_ids,
    })
    const { worker } = await startWorker(transport, () => 1, { visibilityTimeout: 12_000 })
    await elapse(60_000)
    expect(worker.activeJobs).toBe(1)
    transport.scripts['/workers/ack'] = () => ({})
    await elapse(5_000)
    expect(worker.activeJobs).toBe(0)
  })

  it('wait for a Retry-After longer than the visibility timeout if heartbeats extend the lease', async () => {
    const { transport } = newServer([{ id: 'one' }])
    transport.scripts['/workers/ack'] = () => {
      throw new OJSError({ code: 'rate_limited', message: 'slow', status: 429, retryAfter: 20 })
    }
    transport.scripts['/workers/heartbeat'] = ({ active_job_ids }) => ({
      state: 'running',
      jobs_extended: active_job_ids,
    })
    const { worker } = await startWorker(transport, () => 1, { visibilityTimeout: 12_000 })
    await elapse(10_000)
    transport.scripts['/workers/ack'] = () => ({})
    await elapse(15_000)
    expect([transport.acks.length, worker.activeJobs]).toEqual([2, 0])
  })

  it('wait as long as Retry-After says before they are repeated', async () => {
    const { transport } = newServer([{}])
    transport.scripts['/workers/ack'] = () => {
      throw new OJSError({ code: 'backend_error', message: 'busy', status: 503, retryAfter: 3 })
    }
    await startWorker(transport, () => 1)
    await elapse(2_999)
    expect(transport.acks).toHaveLength(1)
    await elapse(2)
    expect(transport.acks).toHaveLength(2)
  })

  it('accept a 409 as success if an earlier try, whose answer was lost, explains the state', async () => {
    const states = ['completed', 'retryable', 'discarded', 'available']
    const { transport } = newServer(states.map((id) => ({ id })))
    const tried = new Set<unknown>()
    const failingFirst = (body: Record<string, unknown>): never => {
      const { job_id: id } = body
      if (tried.has(id)) throw conflict(String(id))
      tried.add(id)
      throw networkError()
    }
    transport.scripts['/workers/ack'] = failingFirst
    transport.scripts['/workers/nack'] = failingFirst
    const fails = ({ job }: JobContext) => {
      if (job.id !== 'completed') throw new Error('boom')
    }
    const { logger } = await startWorker(transport, fails, { concurrency: 4 })
    await elapse(1_000)
    expect([transport.acks.length, transport.nacks.length]).toEqual([2, 6])
    expect(logger.warn).not.toHaveBeenCalled()
    expect(logger.error).not.toHaveBeenCalled()
  })

  it('log an error if the server refuses a NACK with 400', async () => {
    const { transport } = newServer([{}])
    transport.scripts['/workers/nack'] = () => {
      throw new OJSError({ code: 'invalid_request', message: 'no', status: 400 })
    }
    const { logger } = await startWorker(transport, () => Promise.reject(new Error('boom')))
    await elapse(1_000)
    expect(transport.nacks).toHaveLength(1)
    expect(logger.error.mock.calls.map(([message]) => message)).toEqual([
      'http source reported an error',
      'report could not be delivered; the job will run again',
    ])
  })

  it.each([
    ['on the first try', 'completed', 1],
    ['on a repeated try that finds another state', 'available', 2],
  ])('do not accept a 409 as success %s', async (_which, state, tries) => {
    const { transport } = newServer([{}])
    transport.scripts['/workers/ack'] = () => {
      throw transport.acks.length < tries ? networkError() : conflict(state)
    }
    const { logger } = await startWorker(transport, () => 1)
    await elapse(1_000)
    expect(transport.acks).toHaveLength(tries)
    expect(logger.warn).toHaveBeenCalledTimes(1)
  })

  it.each([
    ['the server', new OJSError({ code: 'invalid_request', message: 'too large', status: 413 })],
    ['a proxy', new OJSTransportError('too large', { kind: 'protocol', status: 413 })],
  ])('fail the job for good if %s refuses its result with 413', async (_who, refusal) => {
    const { transport } = newServer([{}])
    transport.scripts['/workers/ack'] = () => {
      throw refusal
    }
    const { worker } = await startWorker(transport, () => 'x')
    await elapse()
    expect(transport.acks).toHaveLength(1)
    expect(transport.nacks).toMatchObject([
      { attempt: 1, error: { code: 'handler_error', type: 'ResultError', retryable: false } },
    ])
    expect(transport.nacks).toMatchObject([
      { error: { message: 'The server refused the result of the job: too large' } },
    ])
    expect(worker.activeJobs).toBe(0)
  })

  it('understand a transport that returns errors as answers instead of throwing them', async () => {
    const { transport } = newServer([{}])
    const request = transport.request.bind(transport)
    const body = { error: { code: 'invalid_request', message: 'no', retryable: false } }
    transport.request = async (opts) => {
      const answer = await request(opts)
      return opts.path === '/workers/ack' ? { status: 409, body } : answer
    }
    const { logger } = await startWorker(transport, () => 1)
    await elapse()
    expect(logger.warn).toHaveBeenCalledWith(
      'report came too late: the server no longer waits for this execution',
      expect.anything(),
    )
  })

  it('log no warning if the server has already failed the job for its timeout', async () => {
    const { transport } = newServer([{ timeout_ms: 500 }])
    transport.scripts['/workers/nack'] = () => {
      throw conflict('retryable')
    }
    const handler = deferred()
    const { worker, logger } = await startWorker(transport, () => handler.promise)
    await elapse(600)
    expect(transport.nacks).toMatchObject([{ attempt: 1, error: { code: 'timeout' } }])
    handler.resolve()
    await elapse()
    expect(worker.activeJobs).toBe(0)
    expect(logger.warn).not.toHaveBeenCalled()
  })
})
