/** Statements for workflows, their nodes and steps. */
import type { RowState } from '../../../job/job.ts'
import type { StepResult } from '../../../job/workflow/results.ts'
import type { FailedStep, WorkflowHead, WorkflowStep } from '../../../job/workflow/row.ts'
import type { Outcome, WorkflowState } from '../../../job/workflow/workflow.ts'
import type { NodeRow } from '../../writes/workflow-walk.ts'
import type { Database, Flag } from './driver.ts'

/** `seq`: the rowid of the workflow. */
type HeadRow = WorkflowHead & { seq: number }

type ShownOtherwise = 'isCallback' | 'dependsOn' | 'state' | 'result' | 'resultBytes' | 'error'

/** A step as readers see it, without the texts of its result and its error. */
export type StepRow = Omit<WorkflowStep, ShownOtherwise> & {
  node: number
  isCallback: Flag
  /** JSON. */
  dependsOn: string
  bytes: number
  errorBytes: number
  state: WorkflowStep['state'] | null
}

type ResultRow = StepResult & { node: number }

/** A join has only the first two and `feeds`. */
export type NodeColumns = [
  rule: NodeRow['rule'],
  pending: number,
  isCallback: Flag,
  type: string | null,
  id: string | null,
  dependsOn: string | null,
  feeds: string,
  inputs: string | null,
  request: string | null,
]

type NewWorkflowRow = [
  id: string,
  type: WorkflowHead['type'],
  total: number,
  now: number,
  name: string | null,
  settings: string,
]

/** How the job of a step has ended. */
type StepEnd = [
  jobId: string,
  outcome: Outcome,
  jobState: RowState,
  now: number,
  error: string | null,
  startedAt: number | null,
  attempt: number,
]

/** Which node of which workflow. */
type OfNode = [seq: number, node: number]

/** Every statement of workflows, prepared once. */
export type WorkflowStatements = ReturnType<typeof prepareWorkflows>

const HEAD = `id, name, type, state, created_at AS createdAt, ended_at AS endedAt, total, completed,
  failed, open`
const NODE =
  'node, rule, pending, completed, failed, cancelled, is_callback AS isCallback, type, id, feeds'
/** The size of the result; SQLite does not read the text for it. */
const RESULT_BYTES = 'ifnull(octet_length(j.result), 0)'
/** The job's own error comes first: it may be newer than the one that the step kept of the job's end. */
const ERROR = 'coalesce(j.error, s.error)'
/** A job that has ended otherwise than completed may be retried, and then says nothing of the step any more. */
const ITS_JOB = `LEFT JOIN jobs j ON j.id = s.job_id
  AND (s.progress IN ('started', 'completed') OR j.generation = 0)`
const STEP_AND_JOB = `workflow_steps s ${ITS_JOB}`

export function prepareWorkflows(db: Database) {
  return { ...prepareReads(db), ...prepareWrites(db), ...prepareRetention(db) }
}

function prepareReads(db: Database) {
  return {
    result: db.prepare<[jobId: string], { result: string | null }>(
      'SELECT result FROM jobs WHERE id = ?',
    ),
    counts: db.prepare<[], { state: WorkflowState; count: number }>(
      'SELECT state, count(*) AS count FROM workflows GROUP BY state',
    ),
    head: db.prepare<[id: string], HeadRow>(`SELECT seq, ${HEAD} FROM workflows WHERE id = ?`),
    bySeq: db.prepare<[seq: number], WorkflowHead & { settings: string }>(
      `SELECT ${HEAD}, settings FROM workflows WHERE seq = ?`,
    ),
    all: db.prepare<[limit: number, offset: number], WorkflowHead>(
      `SELECT ${HEAD} FROM workflows ORDER BY seq DESC LIMIT ?1 OFFSET ?2`,
    ),
    ofState: db.prepare<[limit: number, offset: number, state: WorkflowState], WorkflowHead>(
      `SELECT ${HEAD} FROM workflows WHERE state = ?3 ORDER BY seq DESC LIMIT ?1 OFFSET ?2`,
    ),
    isStep: db.prepare<[jobId: string]>('SELECT 1 FROM workflow_steps WHERE job_id = ?'),
    /**
     * The steps as readers see them. The columns of the job's row come first: they may be newer (the late
     * report of a native worker). If that row is gone, or has been retried, the step shows what it kept
     * of the job's end.
     */
    steps: db.prepare<[seq: number], StepRow>(
      `SELECT s.node, s.id, s.type, s.is_callback AS isCallback, s.depends_on AS dependsOn,
         s.progress, coalesce(s.job_state, j.state) AS state, s.job_id AS jobId,
         coalesce(j.started_at, s.started_at) AS startedAt, s.ended_at AS endedAt,
         coalesce(j.attempt, s.attempt, 0) AS attempt,
         ${RESULT_BYTES} AS bytes,
         iif(s.progress = 'completed', 0, ifnull(octet_length(${ERROR}), 0)) AS errorBytes
       FROM ${STEP_AND_JOB}
       WHERE s.workflow = ? AND s.type IS NOT NULL ORDER BY s.node`,
    ),
    error: db.prepare<OfNode, { error: string }>(
      `SELECT ${ERROR} AS error FROM ${STEP_AND_JOB} WHERE s.workflow = ? AND s.node = ?`,
    ),
    /** JSON: a list of the error's code and message. One call, so that SQLite parses the error only once. */
    briefError: db.prepare<OfNode, { said: string }>(
      `SELECT json_extract(${ERROR}, '$.code', '$.message') AS said
       FROM ${STEP_AND_JOB} WHERE s.workflow = ? AND s.node = ?`,
    ),
    lastFailed: db.prepare<[seq: number], FailedStep>(
      `SELECT id, type, job_state AS state, error FROM workflow_steps
       WHERE workflow = ? AND progress = 'failed' AND type IS NOT NULL
       ORDER BY ended_at DESC, node DESC LIMIT 1`,
    ),
    /** What a step needs to begin. */
    source: db.prepare<OfNode, { request: string; inputs: string }>(
      'SELECT request, inputs FROM workflow_steps WHERE workflow = ? AND node = ?',
    ),
    /** `nodes`: a JSON list. CROSS JOIN makes SQLite go from the list to the steps, never the other way. */
    results: db.prepare<[seq: number, nodes: string], ResultRow>(
      `SELECT s.node, s.id, ifnull(s.job_id, '') AS jobId, ${RESULT_BYTES} AS bytes
       FROM json_each(?2) wanted
       CROSS JOIN workflow_steps s ON s.workflow = ?1 AND s.node = wanted.value
       ${ITS_JOB}`,
    ),
  }
}

function prepareWrites(db: Database) {
  return {
    create: db.prepare<NewWorkflowRow, { seq: number }>(
      `INSERT INTO workflows (id, type, state, total, open, created_at, name, settings)
       VALUES (?1, ?2, 'running', ?3, ?3, ?4, ?5, ?6) RETURNING seq`,
    ),
    addNode: db.prepare<[...OfNode, ...NodeColumns]>(
      `INSERT INTO workflow_steps (workflow, node, progress, rule, pending, is_callback, type, id,
         depends_on, feeds, inputs, request)
       VALUES (?, ?, 'waiting', ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    /** The step of a job that is over. */
    endStep: db.prepare<StepEnd, NodeRow & { workflow: number }>(
      `UPDATE workflow_steps SET progress = ?2, job_state = ?3, ended_at = ?4, error = ?5,
         started_at = ?6, attempt = ?7
       WHERE job_id = ?1 AND progress = 'started'
       RETURNING workflow, ${NODE}`,
    ),
    /** `count` of the nodes that a node waits for have ended, and how. */
    arrive: db.prepare<
      [...OfNode, count: number, completed: number, failed: number, cancelled: number],
      NodeRow
    >(
      `UPDATE workflow_steps SET pending = pending - ?3, completed = completed + ?4,
         failed = failed + ?5, cancelled = cancelled + ?6
       WHERE workflow = ?1 AND node = ?2 AND progress = 'waiting'
       RETURNING ${NODE}`,
    ),
    startStep: db.prepare<[...OfNode, jobId: string]>(
      `UPDATE workflow_steps SET progress = 'started', job_id = ?3
       WHERE workflow = ?1 AND node = ?2 AND progress = 'waiting'`,
    ),
    /** Ends a node that has no job. */
    endNode: db.prepare<
      [...OfNode, outcome: Outcome, shownState: RowState, now: number, error: string | null]
    >(
      `UPDATE workflow_steps SET progress = ?3, job_state = ?4, ended_at = ?5, error = ?6
       WHERE workflow = ?1 AND node = ?2 AND progress = 'waiting'`,
    ),
    /** `ended`, `completed` and `failed`: how many more. */
    progress: db.prepare<
      [
        seq: number,
        ended: number,
        completed: number,
        failed: number,
        state: WorkflowState,
        endedAt: number | null,
      ],
      WorkflowHead
    >(
      `UPDATE workflows SET open = open - ?2, completed = completed + ?3, failed = failed + ?4,
         state = ?5, ended_at = ?6
       WHERE seq = ?1 RETURNING ${HEAD}`,
    ),
    cancel: db.prepare<[id: string, now: number], HeadRow>(
      `UPDATE workflows SET state = 'cancelled', ended_at = ?2, open = 0
       WHERE id = ?1 AND state = 'running' RETURNING seq, ${HEAD}`,
    ),
    cancelSteps: db.prepare<
      [seq: number, now: number],
      Pick<NodeRow, 'type' | 'isCallback'> & { jobId: string | null }
    >(
      `UPDATE workflow_steps SET progress = 'cancelled', job_state = 'cancelled', ended_at = ?2
       WHERE workflow = ?1 AND progress IN ('waiting', 'started')
       RETURNING type, is_callback AS isCallback, job_id AS jobId`,
    ),
  }
}

function prepareRetention(db: Database) {
  return {
    oldestEnded: db.prepare<[endedBefore: number], { seq: number; state: WorkflowState }>(
      `SELECT seq, state FROM workflows WHERE ended_at IS NOT NULL AND ended_at < ?
       ORDER BY ended_at LIMIT 1`,
    ),
    boundEnds: db.prepare<[now: number, limit: number]>(
      `UPDATE workflows SET ended_at = ?1 WHERE seq IN (
         SELECT seq FROM workflows WHERE ended_at IS NOT NULL AND ended_at > ?1 LIMIT ?2)`,
    ),
    forgetSteps: db.prepare<[seq: number]>('DELETE FROM workflow_steps WHERE workflow = ?'),
    forget: db.prepare<[seq: number]>('DELETE FROM workflows WHERE seq = ?'),
  }
}
