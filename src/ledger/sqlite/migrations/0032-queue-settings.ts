/** What operators set for a queue at run time (`QueueSettings`). */
export const sql = `
ALTER TABLE queues ADD COLUMN draining_at INTEGER;
-- JSON of QueueConfiguration.
ALTER TABLE queues ADD COLUMN configuration TEXT;
`
