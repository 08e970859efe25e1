/**
 * Queues that RabbitMQ may not have written to disk yet (broker/topology/entity.ts). A table of its own, because a
 * queue is noted here before it is declared, and not every declare succeeds.
 */
export const sql = `
CREATE TABLE unwritten_queues (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
`
