/**
 * Schedules whose token is not in the delayed message exchange yet (`OJS_DELAY_MODE=plugin`), by when
 * they are due. On `state`, against the rule of 0001: a job is written to it when it is scheduled and
 * when it is due, and jobs that are not scheduled pay nothing.
 */
export const sql = `
CREATE INDEX jobs_ahead ON jobs (due_at)
  WHERE state = 'scheduled' AND rung_ms IS NULL AND outbox IS NULL;
`
