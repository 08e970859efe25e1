/**
 * Indexes that find jobs. `jobs_search` contains `state`, against the rule of 0001: it is the one index that a
 * PUSH, a claim and an ack each write more, and for it every list by state, queue and type is a range in order
 * of creation. Its fourth column keeps apart the rows that came into their queue long after they were created
 * (retries, schedules), so that the oldest of the others is the first of a range; those rows have
 * `jobs_late`, which plain jobs never enter.
 *
 * `jobs_error`: the error's text up to the end of its code, which comes first in it. No JSON function reads it,
 * because these have a depth limit, and a write must not fail for that.
 */
export const sql = `
CREATE INDEX jobs_search ON jobs (queue, state, type, abs(enqueued_at - created_at) > 1000, created_at);
CREATE INDEX jobs_late ON jobs (queue, enqueued_at)
  WHERE state = 'available' AND abs(enqueued_at - created_at) > 1000;
CREATE INDEX jobs_of_cron ON jobs (cron_entry, created_at) WHERE cron_entry IS NOT NULL;
CREATE INDEX jobs_error ON jobs (substr(error, 1, instr(error, '","')), created_at)
  WHERE error IS NOT NULL;
`
