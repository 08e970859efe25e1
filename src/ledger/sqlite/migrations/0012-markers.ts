/** The marker that tells whether a queue is still the one that took our messages: `broker/monitoring/queue-identity.ts`. */
export const sql = `
ALTER TABLE queues ADD COLUMN marker TEXT;
`
