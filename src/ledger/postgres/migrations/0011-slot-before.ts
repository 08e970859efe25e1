/** What whoever had a slot before can still be told: how far it came. */
export const sql = `
ALTER TABLE %S.slots
  -- The process from which the slot was taken, and the last group that it committed.
  ADD COLUMN before_owner uuid,
  ADD COLUMN before_group bigint;
`
