/**
 * Queues that are gone and whose jobs may have run, which the marker said before in a word of its own.
 * When they were found lost was not kept.
 */
export const sql = `
ALTER TABLE queues ADD COLUMN lost_at INTEGER;
UPDATE queues SET lost_at = unixepoch() * 1000, marker = NULL WHERE marker = 'lost';
`
