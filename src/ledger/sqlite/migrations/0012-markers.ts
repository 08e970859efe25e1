/** The marker that tells whether a queue is still the one that took our tokens: `broker/queue-markers.ts`. */
export const sql = `
ALTER TABLE queues ADD COLUMN marker TEXT;
`
