import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { JobRow } from '../../src/job/job.ts'
import { followWorkflows } from '../../src/operations/follow-workflows.ts'
import { createWorkflow } from '../../src/operations/workflows.ts'
import { openSqliteHarness, type SqliteHarness } from '../ledger/sqlite-harness.ts'
import { onToldBroker, type ToldStage } from './told-broker.ts'

let harness: SqliteHarness
let stage: ToldStage
/** What the worker does as soon as there is a token. */
let work: (row: JobRow) => void
beforeEach(async () => {
  harness = await openSqliteHarness()
  work = () => {}
  stage = onToldBroker(harness, {
    ensureQueue: async () => 'ready',
    async publish(row) {
      work(row)
      return 'confirmed'
    },
  })
  harness.ledger.workflows.onNews((news) => followWorkflows(stage.deps, news))
})
afterEach(() => harness.destroy())

const told = async () => {
  await createWorkflow(
    stage.deps,
    { type: 'group', jobs: [{ type: 'a', args: [] }] },
    { requestId: 'req_1' },
  )
  for (let i = 0; i < 3; i++) await nextTurn()
  return stage.events.map(({ type }) => type).filter((type) => type.startsWith('job.'))
}

it('tells of a job that begins, once', async () => {
  expect(await told()).toEqual(['job.enqueued'])
})

it('tells of it before what a worker makes of it, however fast', async () => {
  work = (row) => {
    stage.deps.events.emit({ type: 'job.started', job: { ...row, state: 'active', attempt: 1 } })
  }
  expect(await told()).toEqual(['job.enqueued', 'job.started'])
})
