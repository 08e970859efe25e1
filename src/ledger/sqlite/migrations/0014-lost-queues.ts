/**
 * Lost queues (`LostQueues`) get a column of their own: before, the marker was the word `lost`. The time of
 * the loss was not stored then, so it becomes the time of the migration.
 */
export const sql = `
ALTER TABLE queues ADD COLUMN lost_at INTEGER;
UPDATE queues SET lost_at = unixepoch() * 1000, marker = NULL WHERE marker = 'lost';
`
