import { expect, it } from 'vitest'
import { ANY_JOB } from '../../../src/job/search/filter.ts'
import { beginOperation, dryRun } from '../../../src/operations/steer/bulk.ts'
import { ofDeadLetters } from '../../../src/operations/steer/steer.ts'
import { NOW } from '../../ledger/harness.ts'
import { ledgerOfTest } from '../../ledger/sqlite/harness.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import { onToldBroker } from '../job-messages/told-broker.ts'

const harness = ledgerOfTest()
const CONTEXT = { requestId: 'req_1' }

it('knows the number of all dead letters of a queue, also when it is more than a search compares', async () => {
  const jobs = Array.from({ length: 4_100 }, () => newJob({ queue: 'q' }))
  for (let i = 0; i < jobs.length; i += 1_000) {
    await harness.ledger.insertAll(jobs.slice(i, i + 1_000), NOW)
  }
  const dead = { state: 'discarded', isDeadLetter: true, endedAt: NOW, discardedAt: NOW } as const
  await harness.plant(jobs.map(({ id }) => ({ id, ...dead })))
  const { deps } = onToldBroker(harness, {})
  const filter = { ...ANY_JOB, queues: ['q'] }
  const by = { how: ofDeadLetters('retry', CONTEXT), filter, asked: {}, limit: null }
  expect(await dryRun(deps, by, CONTEXT)).toMatchObject({ count: 4_100, isBound: false })
  const { expected } = await beginOperation(deps, by, CONTEXT)
  expect(expected).toEqual({ count: 4_100, isBound: false })
  // What a filter names is compared.
  const created = { from: null, until: NOW + 1 }
  const bound = await dryRun(deps, { ...by, filter: { ...filter, created } }, CONTEXT)
  expect(bound).toMatchObject({ count: 4_000, isBound: true })
})
