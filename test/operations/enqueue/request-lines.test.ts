import { expect, it, vi } from 'vitest'
import { registerCron } from '../../../src/operations/cron/cron.ts'
import { pushBatch } from '../../../src/operations/enqueue/push-batch.ts'
import { ledgerOfTest } from '../../ledger/sqlite/harness.ts'
import { onToldBroker } from '../job-messages/told-broker.ts'

const TRACE = '4b'.repeat(16)
const CONTEXT = {
  requestId: 'req_1',
  traceparent: `00-${TRACE}-${'a1'.repeat(8)}-01`,
  tracestate: 'a=1',
  idempotencyKey: 'order-1 of customer 7',
}

const harness = ledgerOfTest()

function stage() {
  const { deps } = onToldBroker(harness, { publish: async () => 'confirmed' as const })
  const info = vi.fn()
  return { deps: { ...deps, logger: { ...deps.logger, info } }, info }
}

it('a batch logs one line with its request and trace ids, without its Idempotency-Key or args', async () => {
  const { deps, info } = stage()
  const { jobs } = await pushBatch(deps, { jobs: [{ type: 'a', args: ['secret'] }] }, CONTEXT)
  const line = { jobs: 1, firstJobId: jobs[0]?.id, requestId: 'req_1', traceId: TRACE }
  expect(info.mock.calls).toEqual([[line, 'batch enqueued']])
})

it('the registration of a cron job logs one line with its request and trace ids, without args', async () => {
  const { deps, info } = stage()
  await registerCron(deps, { name: 'c', cron: '@daily', type: 'a', args: ['secret'] }, CONTEXT)
  const line = { cron: 'c', expression: '@daily', timezone: 'UTC' }
  const asked = { requestId: 'req_1', traceId: TRACE }
  expect(info.mock.calls).toEqual([[{ ...line, ...asked }, 'cron job registered']])
})
