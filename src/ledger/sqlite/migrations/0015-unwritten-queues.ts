/** When a queue was declared, until RabbitMQ has certainly written that down (broker/unwritten.ts). */
export const sql = `
ALTER TABLE queues ADD COLUMN unwritten_since INTEGER;
`
