/**
 * Queues that RabbitMQ may not have written down yet (broker/unwritten.ts). A table of its own: not every
 * one of them comes into being.
 */
export const sql = `
CREATE TABLE unwritten_queues (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
`
