import { expect, it } from 'vitest'
import { newGraph } from '../../support/gateway/workflows.ts'
import { NOW, pushed } from '../harness.ts'
import { ledgerOfTest } from './harness.ts'

const OVER = 10_000
const LOOKED_AT = 2_000

const harness = ledgerOfTest()

const prune = () => {
  const cutoff = NOW + OVER
  const none = { cancelled: 0, discarded: 0, deadLetters: 0, withdrawn: 0 }
  return harness.ledger.prune({ ...none, completed: cutoff }, cutoff, 500)
}

/** Ended jobs of a running workflow, each of which ended at another time. */
async function plantKept(count: number): Promise<void> {
  const { db, ledger } = harness
  await ledger.workflows.create(newGraph({ a: [] }), NOW)
  db.exec(`
    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ${count})
    INSERT INTO jobs (id, generation, state, attempt, queue, type, priority, max_attempts, timeout_ms,
      token_out, created_at, enqueued_at, completed_at, ended_at, dead_letter_copied, envelope)
    SELECT 'kept-' || i, 0, 'completed', 1, 'q', 't', 0, 3, 0, 0, 1, 1, ${NOW} + i, ${NOW} + i, 0, '{}'
    FROM n;
    INSERT INTO workflow_steps (workflow, node, progress, rule, pending, is_callback, feeds, job_id)
    SELECT 1, seq + 10, 'completed', 'job', 0, 0, '[]', id FROM jobs WHERE state = 'completed'`)
}

it('prune goes through jobs that a workflow keeps a page at a time, and prunes a later job', async () => {
  await plantKept(2 * LOOKED_AT + 10)
  const { id } = await pushed(harness.ledger)
  const endedAt = NOW + OVER - 1
  harness.db.exec(`UPDATE jobs SET state = 'completed', outbox = NULL, token_out = 0, attempt = 1,
    completed_at = ${endedAt}, ended_at = ${endedAt} WHERE id = '${id}'`)
  expect([await prune(), await prune(), await prune()]).toEqual([0, 0, 1])
  expect(await harness.ledger.read.find(id)).toBeNull()
})

it('prune removes jobs that a workflow no longer keeps', async () => {
  await plantKept(LOOKED_AT + 10)
  expect([await prune(), await prune()]).toEqual([0, 0])
  harness.db.exec('DELETE FROM workflow_steps WHERE node > 10')
  let pruned = 0
  for (let batch = 0; batch < 8; batch++) pruned += await prune()
  expect(pruned).toBe(LOOKED_AT + 10)
})
