/** Since when a queue has been idle, as far as was noticed (`IdleQueues`); null: it is in use. */
export const sql = `
ALTER TABLE queues ADD COLUMN idle_since INTEGER;
`
