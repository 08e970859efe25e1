/**
 * Steps of workflows that have ended, by the time of their end: with `jobs_prunable`, which leaves them out, and
 * `jobs_stray`, every job that has ended. Jobs that are no steps never enter it.
 */
export const sql = `
CREATE INDEX jobs_ended_steps ON %S.jobs (state, is_dead_letter, ended_at)
  WHERE ended_at IS NOT NULL AND NOT message_out AND step IS NOT NULL;
`
