/**
 * The length that the last heartbeat gave a lease, if it named one. A lease that lasts longer than that from
 * now on was written by a clock that was ahead. Existing leases get their whole length so far: no heartbeat
 * that extended one can have come before its start, so it named at most that length.
 */
export const sql = `
ALTER TABLE jobs ADD COLUMN extended_ms INTEGER;
UPDATE jobs SET extended_ms = lease_expires_at - started_at
WHERE lease_expires_at IS NOT NULL
  AND min(lease_expires_at, coalesce(timeout_at, lease_expires_at)) > 0;
`
