import { afterEach, beforeEach, expect, it } from 'vitest'
import type { ReportEvent } from '../../src/job/request.ts'
import { report } from '../../src/operations/report.ts'
import { NOW, pushed } from '../ledger/harness.ts'
import { openSqliteHarness, type SqliteHarness } from '../ledger/sqlite-harness.ts'
import { onToldBroker, type ToldStage } from './told-broker.ts'

const AT = { attempt: 1, at: new Date(NOW).toISOString() }
const FAILED = { ...AT, event: 'failed', error: { code: 'boom', message: 'it went off' } } as const

let harness: SqliteHarness
let stage: ToldStage
beforeEach(async () => {
  harness = await openSqliteHarness()
  stage = onToldBroker(harness, { publish: async () => 'confirmed' })
})
afterEach(() => harness.destroy())

it.each<[string, Partial<ReportEvent>, string]>([
  ['success', { event: 'completed' }, 'job.completed'],
  ['failure', FAILED, 'job.retrying'],
  ['final failure', { ...FAILED, outcome: { decision: 'discard' } }, 'job.discarded'],
])('of a start with its %s tells the start as it was', async (_end, said, last) => {
  const { id } = await pushed(harness.ledger)
  const events = [{ event: 'started' as const }, said].map((one) => ({ ...AT, ...one, job_id: id }))
  await report(
    stage.deps,
    { worker_id: 'w', events: events as ReportEvent[] },
    { requestId: 'req_1' },
  )
  const started = stage.events.find(({ type }) => type === 'job.started')
  expect(started).toMatchObject({
    job: { id, state: 'active', attempt: 1, workerId: 'w', enqueuedAt: NOW, startedAt: NOW },
  })
  expect(stage.events.map(({ type }) => type)).toContain(last)
})
