import { beforeEach, expect, it } from 'vitest'
import { cancel } from '../../src/operations/cancel.ts'
import { push } from '../../src/operations/enqueue/push.ts'
import { pushBatch } from '../../src/operations/enqueue/push-batch.ts'
import { rowOf, settleLazily } from '../ledger/harness.ts'
import { ledgerOfTest } from '../ledger/sqlite/harness.ts'
import { onToldBroker, type ToldStage } from './job-messages/told-broker.ts'

const CONTEXT = { requestId: 'req_1' }
const KEYED = { ...CONTEXT, idempotencyKey: 'k' }
const UNIQUE = { options: { unique: { keys: ['type'] } } }
const JOB = { type: 'a', args: [] }

const harness = ledgerOfTest()
let stage: ToldStage
beforeEach(() => {
  stage = onToldBroker(harness, {
    publish: async () => 'confirmed',
    broadcast: async () => 'confirmed',
  })
})

it.each<[string, (id: string) => Promise<unknown>]>([
  ['a PUSH', (id) => push(stage.deps, { ...JOB, id }, CONTEXT)],
  ['a PUSH of a unique job', (id) => push(stage.deps, { ...JOB, ...UNIQUE, id }, CONTEXT)],
  ['a PUSH with an Idempotency-Key', (id) => push(stage.deps, { ...JOB, id }, KEYED)],
  ['a batch', (id) => pushBatch(stage.deps, { jobs: [{ ...JOB, id }] }, CONTEXT)],
])(
  'CANCEL in the commit of %s emits its event after job.enqueued, and keeps the job message as out',
  async (_, start) => {
    const id = stage.deps.newId()
    const pushed = start(id)
    for (let i = 0; i < 20; i++) await Promise.resolve()
    await Promise.all([pushed, cancel(stage.deps, id, CONTEXT)])
    await settleLazily(harness.ledger)
    const own = stage.events.filter((event) => 'job' in event && event.job.id === id)
    expect(own.map(({ type }) => type)).toEqual(['job.enqueued', 'job.cancelled'])
    expect(await rowOf(harness.ledger, id)).toMatchObject({ messageOut: true })
  },
)
