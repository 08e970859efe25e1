/**
 * The length that the last heartbeat has given a lease, where it named one. What lasts longer than that
 * from now on was written by a clock that was ahead. How long those leases are that there are: nobody has
 * extended one before it began.
 */
export const sql = `
ALTER TABLE jobs ADD COLUMN extended_ms INTEGER;
UPDATE jobs SET extended_ms = lease_expires_at - started_at
WHERE lease_expires_at IS NOT NULL
  AND min(lease_expires_at, coalesce(timeout_at, lease_expires_at)) > 0;
`
