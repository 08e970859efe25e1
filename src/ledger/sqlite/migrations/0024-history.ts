/**
 * The changes of state of each job, one line each (`job/history/changes.ts`). Not for the jobs that exist already:
 * their history begins with their next change.
 */
export const sql = `
ALTER TABLE jobs ADD COLUMN history TEXT NOT NULL DEFAULT '';
`
