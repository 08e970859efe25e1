import type { Database } from './driver.ts'

/** Every statement of workflows, prepared once. */
export type WorkflowStatements = ReturnType<typeof prepareWorkflows>

const HEAD = `id, name, type, state, created_at AS createdAt, ended_at AS endedAt, total, completed,
  failed, open`
const NODE =
  'node, rule, pending, completed, failed, cancelled, is_callback AS isCallback, type, id, feeds'
/** Of its text, which is not read for it. */
const RESULT_BYTES = 'ifnull(octet_length(j.result), 0)'

export function prepareWorkflows(db: Database) {
  return { ...prepareReads(db), ...prepareWrites(db), ...prepareRetention(db) }
}

function prepareReads(db: Database) {
  return {
    result: db.prepare('SELECT result FROM jobs WHERE id = ?'),
    counts: db.prepare('SELECT state, count(*) AS count FROM workflows GROUP BY state'),
    head: db.prepare(`SELECT seq, ${HEAD} FROM workflows WHERE id = ?`),
    bySeq: db.prepare(`SELECT ${HEAD}, settings FROM workflows WHERE seq = ?`),
    all: db.prepare(`SELECT ${HEAD} FROM workflows ORDER BY seq DESC LIMIT ?1 OFFSET ?2`),
    ofState: db.prepare(
      `SELECT ${HEAD} FROM workflows WHERE state = ?3 ORDER BY seq DESC LIMIT ?1 OFFSET ?2`,
    ),
    isStep: db.prepare('SELECT 1 FROM workflow_steps WHERE job_id = ?'),
    /**
     * For readers. A job that has begun another life tells nothing of this one, nor does one that is
     * deleted: what the step kept of its end does. Before that the job's own, which may be newer
     * (the late word of a native worker).
     */
    steps: db.prepare(
      `SELECT s.id, s.type, s.is_callback AS isCallback, s.depends_on AS dependsOn,
         s.progress, coalesce(s.job_state, j.state) AS state, s.job_id AS jobId,
         coalesce(j.started_at, s.started_at) AS startedAt, s.ended_at AS endedAt,
         coalesce(j.attempt, s.attempt, 0) AS attempt,
         ${RESULT_BYTES} AS bytes, coalesce(j.error, s.error) AS error
       FROM workflow_steps s LEFT JOIN jobs j ON j.id = s.job_id AND j.generation = 0
       WHERE s.workflow = ? AND s.type IS NOT NULL ORDER BY s.node`,
    ),
    lastFailed: db.prepare(
      `SELECT id, type, job_state AS state, error FROM workflow_steps
       WHERE workflow = ? AND progress = 'failed' AND type IS NOT NULL
       ORDER BY ended_at DESC, node DESC LIMIT 1`,
    ),
    /** What a step needs to begin. */
    source: db.prepare(
      'SELECT request, inputs FROM workflow_steps WHERE workflow = ? AND node = ?',
    ),
    /** ?2 a JSON list of nodes. CROSS: from the list to the nodes, and never the other way. */
    results: db.prepare(
      `SELECT s.node, s.id, ifnull(s.job_id, '') AS jobId, ${RESULT_BYTES} AS bytes
       FROM json_each(?2) wanted
       CROSS JOIN workflow_steps s ON s.workflow = ?1 AND s.node = wanted.value
       LEFT JOIN jobs j ON j.id = s.job_id AND j.generation = 0`,
    ),
  }
}

function prepareWrites(db: Database) {
  return {
    create: db.prepare(
      `INSERT INTO workflows (id, type, state, total, open, created_at, name, settings)
       VALUES (?1, ?2, 'running', ?3, ?3, ?4, ?5, ?6) RETURNING seq`,
    ),
    addNode: db.prepare(
      `INSERT INTO workflow_steps (workflow, node, progress, rule, pending, is_callback, type, id,
         depends_on, feeds, inputs, request)
       VALUES (?, ?, 'waiting', ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    /** The step of a job that is over. ?2 outcome, ?3 state of the job, ?4 now, ?5 error. ?6, ?7 its attempt. */
    endStep: db.prepare(
      `UPDATE workflow_steps SET progress = ?2, job_state = ?3, ended_at = ?4, error = ?5,
         started_at = ?6, attempt = ?7
       WHERE job_id = ?1 AND progress = 'started'
       RETURNING workflow, ${NODE}`,
    ),
    /** Something that a node waits for is over. ?3 1 for each: completed, ?4 failed, ?5 cancelled. */
    arrive: db.prepare(
      `UPDATE workflow_steps SET pending = pending - 1, completed = completed + ?3,
         failed = failed + ?4, cancelled = cancelled + ?5
       WHERE workflow = ?1 AND node = ?2 AND progress = 'waiting'
       RETURNING ${NODE}`,
    ),
    /** ?3 its job. */
    startStep: db.prepare(
      `UPDATE workflow_steps SET progress = 'started', job_id = ?3
       WHERE workflow = ?1 AND node = ?2 AND progress = 'waiting'`,
    ),
    /** It ends without a job. ?3 outcome, ?4 state to show, ?5 now, ?6 error. */
    endNode: db.prepare(
      `UPDATE workflow_steps SET progress = ?3, job_state = ?4, ended_at = ?5, error = ?6
       WHERE workflow = ?1 AND node = ?2 AND progress = 'waiting'`,
    ),
    /** ?2 to ?4 how many more; ?5 state and ?6 when it ended. */
    progress: db.prepare(
      `UPDATE workflows SET open = open - ?2, completed = completed + ?3, failed = failed + ?4,
         state = ?5, ended_at = ?6
       WHERE seq = ?1 RETURNING ${HEAD}`,
    ),
    cancel: db.prepare(
      `UPDATE workflows SET state = 'cancelled', ended_at = ?2, open = 0
       WHERE id = ?1 AND state = 'running' RETURNING seq, ${HEAD}`,
    ),
    /** ?2 now. */
    cancelSteps: db.prepare(
      `UPDATE workflow_steps SET progress = 'cancelled', job_state = 'cancelled', ended_at = ?2
       WHERE workflow = ?1 AND progress IN ('waiting', 'started')
       RETURNING type, is_callback AS isCallback, job_id AS jobId`,
    ),
  }
}

function prepareRetention(db: Database) {
  return {
    oldestEnded: db.prepare(
      `SELECT seq, state FROM workflows WHERE ended_at IS NOT NULL AND ended_at < ?
       ORDER BY ended_at LIMIT 1`,
    ),
    forgetSteps: db.prepare('DELETE FROM workflow_steps WHERE workflow = ?'),
    forget: db.prepare('DELETE FROM workflows WHERE seq = ?'),
  }
}
