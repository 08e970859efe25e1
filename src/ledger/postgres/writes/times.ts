/** Set-based writes of times: after an outage, and after the clock was set back. */

import type { Draft } from '../group/draft.ts'
import { forgetTrafficAfter } from '../queues/traffic.ts'
import { boundAnswers } from '../records/idempotency.ts'

const LEASED = 'lease_expires_at IS NOT NULL AND least(lease_expires_at, timeout_at) > 0'
/** The length that the last heartbeat to name one gave the lease, or else its first. */
const LENGTH = 'coalesce(extended_ms, lease_ms)'
/** The most that a lease was extended by at once. */
const LONGEST = 'greatest(lease_ms, extended_ms)'

/** See `LeaseLedger.extendLeases`. Extends the execution timeout too. */
export function extendLeases(draft: Draft, schema: string, now: number): number {
  const text = `UPDATE ${schema}.jobs SET lease_expires_at = greatest(lease_expires_at, $1 + ${LENGTH}),
      timeout_at = CASE WHEN timeout_at IS NOT NULL THEN greatest(timeout_at, $1 + lease_ms) END
    WHERE ${LEASED} AND (lease_expires_at < $1 + ${LENGTH} OR timeout_at < $1 + lease_ms)`
  return draft.execute(text, [now])
}

/** See `LeaseLedger.boundWaits`. */
export function boundWaits(draft: Draft, schema: string, now: number): number {
  forgetTrafficAfter(draft, now)
  boundAnswers(draft, now)
  const leases = `UPDATE ${schema}.jobs SET
      lease_expires_at = least(lease_expires_at, $1 + ${LONGEST}),
      timeout_at = CASE WHEN timeout_at IS NOT NULL
        THEN least(timeout_at, $1 + greatest(timeout_ms, lease_ms)) END
    WHERE ${LEASED} AND (started_at > $1 OR timeout_at > $1 + greatest(timeout_ms, lease_ms)
      OR lease_expires_at > $1 + ${LONGEST})`
  const retries = `UPDATE ${schema}.jobs SET due_at = $1 + retry_delay_ms
    WHERE state = 'retryable' AND due_at IS NOT NULL AND ended_at IS NULL AND due_at > $1
      AND due_at > $1 + retry_delay_ms`
  boundKeys(draft, schema, now)
  return draft.execute(leases, [now]) + draft.execute(retries, [now])
}

/** Unique jobs that were created after `now`, and those of kept keys: their periods begin now. */
function boundKeys(draft: Draft, schema: string, now: number): void {
  const jobs = `UPDATE ${schema}.jobs SET created_at = $1
    WHERE unique_key IS NOT NULL AND created_at > $1`
  const kept = `UPDATE ${schema}.kept_keys SET until = until - (created_at - $1), created_at = $1
    WHERE created_at > $1 AND until > $1`
  draft.execute(jobs, [now])
  if (draft.memory.keptKeys > 0) draft.execute(kept, [now])
}

/** See `Ledger.boundEnds`. One statement for each part of the index. */
export function boundEnds(draft: Draft, schema: string, now: number, limit: number): number {
  const kinds = [...TERMINAL.map((state) => [state, false]), ['discarded', true]] as const
  let left = limit
  for (const [state, isDeadLetter] of kinds) {
    if (left === 0) break
    const text = `UPDATE ${schema}.jobs SET ended_at = $1 WHERE id IN (SELECT id FROM ${schema}.jobs
      WHERE ended_at IS NOT NULL AND NOT message_out AND step IS NULL AND state = $2 AND is_dead_letter = $3
        AND ended_at > $1 LIMIT $4)`
    left -= draft.execute(text, [now, state, isDeadLetter, left])
  }
  const tombstones = `UPDATE ${schema}.tombstones SET cancelled_at = $1 WHERE id IN (
    SELECT id FROM ${schema}.tombstones WHERE cancelled_at > $1 LIMIT $2)`
  if (left > 0) left -= draft.execute(tombstones, [now, left])
  const workflows = `UPDATE ${schema}.workflows SET ended_at = $1 WHERE id IN (
    SELECT id FROM ${schema}.workflows WHERE ended_at IS NOT NULL AND ended_at > $1 LIMIT $2)`
  if (left > 0) left -= draft.execute(workflows, [now, left])
  return limit - left
}

const TERMINAL = ['completed', 'cancelled', 'discarded', 'withdrawn'] as const
