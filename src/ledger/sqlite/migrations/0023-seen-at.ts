/** When a gateway had the file open last, by a clock that it believed; 0: an earlier build. */
export const sql = `
INSERT INTO settings (name, value) VALUES ('seen_at', 0);
`
