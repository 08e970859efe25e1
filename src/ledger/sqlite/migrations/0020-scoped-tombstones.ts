/**
 * Whether a cancelled id is dropped in the queue alone whose control queue the cancel came by
 * (`OJS_CONTROL_SCOPE=queue`). Earlier tombstones count in every queue, as they did when they were written.
 */
export const sql = `
ALTER TABLE tombstones ADD COLUMN is_scoped INTEGER NOT NULL DEFAULT 0;
`
