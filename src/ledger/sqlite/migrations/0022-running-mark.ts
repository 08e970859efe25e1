/**
 * `boot`: the start of the machine in which the file was opened last (`running-mark.ts`). `epoch` and
 * `epoch_before`: the newest two names that this ledger has in RabbitMQ (`broker/monitoring/ledger-epoch.ts`), 0: none.
 */
export const sql = `
INSERT INTO settings (name, value) VALUES ('boot', 0), ('epoch', 0), ('epoch_before', 0);
`
