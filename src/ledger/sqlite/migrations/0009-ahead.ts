/**
 * An index of schedules whose job message is not in the delayed message exchange yet (`OJS_DELAY_MODE=plugin`), by
 * due time. Its condition names `state`, against the rule of 0001: the index is written when a job is
 * scheduled and when it is due, and jobs that are not scheduled pay nothing.
 */
export const sql = `
CREATE INDEX jobs_ahead ON jobs (due_at)
  WHERE state = 'scheduled' AND rung_ms IS NULL AND outbox IS NULL;
`
