import { expect, test, vi } from 'vitest'
import { OJSError } from '../../../src/sdk/transport/errors.ts'
import { inOrder } from '../../support/broker/order.ts'
import { elapse, networkError, newServer, useHttpWorkers } from '../http-worker.ts'
import type { ScriptedTransport } from '../scripted-transport.ts'

const { startWorker } = useHttpWorkers()

/** A server with `count` jobs that takes many reports at once, and answers them after `ms`. */
function newBatchServer(count: number, ms = 20) {
  const { transport, queue } = newServer(Array.from({ length: count }, (_, i) => ({ id: `j${i}` })))
  transport.extensions = ['batch_settle']
  const after = async () => new Promise<void>((resolve) => setTimeout(resolve, ms))
  transport.scripts['/workers/ack'] = async () => {
    await after()
    return { acknowledged: true }
  }
  transport.scripts['/workers/settle'] = async ({ items }) => {
    await after()
    return { items: (items as object[]).map(() => ({ status: 200 })) }
  }
  return { transport, queue }
}

type Item = Record<string, unknown>
const settled = (transport: ScriptedTransport) =>
  transport.bodiesOf('/workers/settle').map(({ items }) => items as Item[])
const idsOf = (items: readonly Item[]) => items.map(({ job_id }) => job_id)

/** Handlers that end when the test says so. */
function newGates() {
  const gates = new Map<string, (how: unknown) => void>()
  const handler = ({ job }: { job: { id: string } }) =>
    new Promise((resolve, reject) => {
      gates.set(job.id, (how) => (how instanceof Error ? reject(how) : resolve(how)))
    })
  const end = (id: string, how: unknown = undefined) => gates.get(id)?.(how)
  return { handler, end }
}

test('reports that come while one is under way share the next request, with their fences', async () => {
  const { transport } = newBatchServer(4)
  const { handler, end } = newGates()
  await startWorker(transport, handler, { concurrency: 4 })
  await elapse(1)
  end('j0')
  await elapse(1)
  // The first one waits for nothing, and goes as it always did.
  expect(transport.acks).toHaveLength(1)
  end('j1', { sum: 1 })
  end('j2', new Error('broken'))
  await elapse(4)
  end('j3')
  expect(settled(transport)).toEqual([])
  await elapse(2)
  const fence = { worker_id: 'worker_1', attempt: 1, generation: 0 }
  expect(settled(transport)).toEqual([
    [
      { action: 'ack', job_id: 'j1', ...fence, result: { sum: 1 } },
      expect.objectContaining({ action: 'nack', job_id: 'j2', ...fence }),
      { action: 'ack', job_id: 'j3', ...fence },
    ],
  ])
  expect(settled(transport)[0]?.[1]).toMatchObject({ error: { message: 'broken' } })
})

test('a report waits for no more than 5 ms, and never for the answer to another', async () => {
  const { transport } = newBatchServer(3, 8_000)
  const { handler, end } = newGates()
  await startWorker(transport, handler, { concurrency: 3 })
  await elapse(1)
  end('j0')
  await elapse(1)
  end('j1')
  await elapse(4)
  end('j2')
  await elapse()
  expect(settled(transport)).toEqual([])
  expect(transport.acks).toHaveLength(1)
  await elapse(1)
  expect(settled(transport).map(idsOf)).toEqual([['j1', 'j2']])
})

test('handlers that end in the same turn share the first request; no request has more than 100', async () => {
  const { transport } = newBatchServer(230)
  await startWorker(transport, () => 'done', { concurrency: 230 })
  await elapse(200)
  const all = settled(transport)
  const single = transport.acks.map(({ job_id }) => job_id)
  expect(new Set([...all.flatMap(idsOf), ...single]).size).toBe(230)
  for (const items of all) expect(items.length).toBeLessThanOrEqual(100)
  expect(all.length + single.length).toBeLessThanOrEqual(10)
})

test('each report gets its own answer: a stale one is stale, a refused result fails its job', async () => {
  const { transport } = newBatchServer(4)
  const { handler, end } = newGates()
  const { logger } = await startWorker(transport, handler, { concurrency: 4 })
  transport.scripts['/workers/settle'] = ({ items }) => ({
    items: (items as Item[]).map(({ job_id, action }) => {
      if (job_id === 'j1') {
        const details = { current_state: 'completed' }
        return { status: 409, job_id, error: { code: 'invalid_request', message: 'm', details } }
      }
      if (job_id === 'j2' && action === 'ack')
        return { status: 413, job_id, error: { code: 'invalid_request', message: 'too large' } }
      return { status: 200 }
    }),
  })
  await elapse(1)
  for (const id of ['j0', 'j1', 'j2', 'j3']) {
    end(id)
    await elapse()
  }
  await elapse(50)
  expect(logger.warn).toHaveBeenCalledExactlyOnceWith(
    expect.stringContaining('too late'),
    expect.objectContaining({ job_id: 'j1' }),
  )
  const failures = [...transport.nacks, ...settled(transport).flat()].filter(({ error }) => error)
  expect(failures).toMatchObject([
    { job_id: 'j2', error: { type: 'ResultError', retryable: false } },
  ])
})

test('a lost answer is repeated, and a job that was settled by it counts as settled', async () => {
  const { transport } = newBatchServer(3)
  const { handler, end } = newGates()
  const { worker, logger } = await startWorker(transport, handler, { concurrency: 3 })
  let tries = 0
  transport.scripts['/workers/settle'] = ({ items }) => {
    tries += 1
    if (tries === 1) throw networkError()
    const details = { current_state: 'completed' }
    return {
      items: (items as Item[]).map(({ job_id }) =>
        job_id === 'j1'
          ? { status: 409, error: { code: 'invalid_request', message: 'm', details } }
          : { status: 200 },
      ),
    }
  }
  transport.scripts['/workers/ack'] = () => {
    throw new OJSError({
      code: 'invalid_request',
      message: 'm',
      status: 409,
      details: { current_state: 'completed' },
    })
  }
  await elapse(1)
  end('j1')
  end('j2')
  await elapse(2_000)
  const [first = [], ...others] = settled(transport)
  expect(idsOf(first)).toEqual(['j1', 'j2'])
  const repeated = [...others.flatMap(idsOf), ...transport.acks.map(({ job_id }) => job_id)]
  expect(inOrder(repeated.map(String))).toEqual(['j1', 'j2'])
  expect(worker.activeJobs).toBe(1)
  expect(logger.warn).not.toHaveBeenCalled()
  expect(logger.error).not.toHaveBeenCalled()
  end('j0')
})

test.each([404, 405, 413, 400])(
  'a whole request that is a %s is sent again as single ones, and nothing is lost',
  async (status) => {
    const { transport } = newBatchServer(6)
    const { handler, end } = newGates()
    const { worker, logger } = await startWorker(transport, handler, { concurrency: 6 })
    transport.scripts['/workers/settle'] = () => {
      throw new OJSError({ code: 'invalid_request', message: 'no', status, retryable: false })
    }
    await elapse(1)
    for (const id of ['j0', 'j1', 'j2', 'j3']) {
      end(id)
      await elapse()
    }
    await elapse(100)
    expect(settled(transport).map(idsOf)).toEqual([['j1', 'j2', 'j3']])
    expect(transport.acks.map(({ job_id }) => job_id)).toEqual(['j0', 'j1', 'j2', 'j3'])
    // A server that does not have it is not asked again; one that refused these reports may take others.
    end('j4')
    end('j5')
    await elapse(100)
    expect(settled(transport)).toHaveLength([404, 405].includes(status) ? 1 : 2)
    expect(transport.acks).toHaveLength(6)
    expect(worker.activeJobs).toBe(0)
    expect(logger.error).not.toHaveBeenCalled()
  },
)

test('a server that does not list it gets single reports, and so do large results', async () => {
  const { transport } = newBatchServer(3)
  transport.extensions = ['fenced_ack']
  const { handler, end } = newGates()
  await startWorker(transport, handler, { concurrency: 3 })
  await elapse(1)
  for (const id of ['j0', 'j1', 'j2']) end(id)
  await elapse(50)
  expect([transport.acks.length, settled(transport)]).toEqual([3, []])

  const other = newBatchServer(3)
  const gates = newGates()
  await startWorker(other.transport, gates.handler, { concurrency: 3 })
  await elapse(1)
  for (const id of ['j0', 'j1', 'j2']) gates.end(id, { text: 'x'.repeat(20_000) })
  await elapse(50)
  expect([other.transport.acks.length, settled(other.transport)]).toEqual([3, []])
})

test('a server without a manifest gets single reports, and is asked no more', async () => {
  const { transport } = newBatchServer(2)
  transport.scripts['/ojs/manifest'] = () => {
    throw new OJSError({ code: 'not_found', message: 'no', status: 404 })
  }
  const { handler, end } = newGates()
  await startWorker(transport, handler, { concurrency: 2 })
  await elapse(60_000)
  end('j0')
  end('j1')
  await elapse(50)
  expect(transport.bodiesOf('/ojs/manifest')).toHaveLength(1)
  expect(transport.acks).toHaveLength(2)
})

test('a manifest that did not come is asked for again', async () => {
  const { transport } = newBatchServer(2)
  const answer = transport.scripts['/ojs/manifest']
  transport.scripts['/ojs/manifest'] = () => {
    throw networkError()
  }
  const { handler, end } = newGates()
  await startWorker(transport, handler, { concurrency: 2 })
  await elapse(1)
  if (answer) transport.scripts['/ojs/manifest'] = answer
  await elapse(15_000)
  end('j0')
  end('j1')
  await elapse(50)
  expect(settled(transport).map(idsOf)).toEqual([['j0', 'j1']])
})

test('a worker that stops reports what its handlers have ended, and gives back the rest, at once', async () => {
  const { transport } = newBatchServer(40, 10)
  const { handler, end } = newGates()
  const { worker } = await startWorker(transport, handler, { concurrency: 40, gracePeriod: 0 })
  await elapse(1)
  end('j0')
  end('j1')
  await elapse()
  const stopping = worker.stop()
  await elapse(5_000)
  const { abandoned } = await stopping
  const items = settled(transport).flat()
  const acked = [...items.filter(({ action }) => action === 'ack'), ...transport.acks]
  const given = [...items.filter(({ requeue }) => requeue), ...transport.nacks]
  expect(new Set(idsOf(acked))).toEqual(new Set(['j0', 'j1']))
  expect(new Set(idsOf(given)).size).toBe(38)
  expect(abandoned).toHaveLength(38)
  expect(vi.getTimerCount()).toBe(0)
})
