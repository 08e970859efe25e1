/** Workflows: the contract's part, and reads of them. */
import type { RowState } from '../../../job/job.ts'
import { jsonOrNull, membersOf } from '../../../job/values/json-value.ts'
import type { WorkflowHead, WorkflowRow, WorkflowStep } from '../../../job/workflow/row.ts'
import type { KnownWorkflows } from '../../known.ts'
import type { WorkflowReads } from '../../reads.ts'
import type { WorkflowCreated, WorkflowLedger, WorkflowQuery } from '../../workflows.ts'
import { unlessRemembered } from '../../writes/remembered.ts'
import { briefError, firstStart, type Shown, shownSteps } from '../../writes/workflow-shown.ts'
import type { Draft } from '../group/draft.ts'
import type { Groups } from '../group/groups.ts'
import type { Memory } from '../group/memory.ts'
import { wanted } from '../group/side.ts'
import { isNodeOf, WORKFLOWS } from '../group/workflows.ts'
import type { Reader } from '../reader.ts'
import { keysOf, keyWanted } from '../records/idempotency.ts'
import { cancelWorkflow, createWorkflow } from './workflow-rows.ts'

export function workflowLedger(groups: Groups): WorkflowLedger {
  return {
    create(workflow, now, request) {
      const { id, nodes } = workflow
      const answerOf = ({ outcome }: WorkflowCreated) =>
        outcome === 'created' ? { ids: [id], existing: [] } : null
      const run = (draft: Draft) =>
        unlessRemembered(
          keysOf(draft),
          { request, now },
          () => createWorkflow(draft, workflow, now),
          answerOf,
        )
      const keys = request ? keyWanted(request).sides : []
      const wants = { sides: [wanted(WORKFLOWS, [id]), ...keys] }
      return groups.write({ wants, run, weight: nodes.length })
    },
    cancel: (id, now) =>
      groups.write({
        wants: { sides: [wanted(WORKFLOWS, [id])] },
        run: (draft) => cancelWorkflow(draft, id, now),
      }),
  }
}

export function knownWorkflows(memory: Memory): KnownWorkflows {
  return { isAnyRunning: () => memory.workflows('running') > 0 }
}

const HEAD = `w.id, w.name, w.type, w.state, w.created_at AS "createdAt", w.ended_at AS "endedAt",
  w.total, w.completed, w.failed, w.open`

export function workflowReads(schema: string, reader: Reader, memory: Memory): WorkflowReads {
  return {
    find: (id) => findWorkflow(schema, reader, id),
    list: ({ state, limit, offset }) =>
      listWorkflows(schema, reader, memory, { state, limit, offset }),
  }
}

async function listWorkflows(
  schema: string,
  reader: Reader,
  memory: Memory,
  { state, limit, offset }: WorkflowQuery,
): ReturnType<WorkflowReads['list']> {
  const where = state === null ? '' : 'WHERE w.state = $3'
  const text = `SELECT ${HEAD} FROM ${schema}.workflows w ${where}
    ORDER BY w.seq DESC LIMIT $1 OFFSET $2`
  const rows = await reader.rows(text, [limit, offset, ...(state === null ? [] : [state])])
  return { workflows: rows as readonly unknown[] as WorkflowHead[], total: memory.workflows(state) }
}

interface StepColumns
  extends Omit<WorkflowStep, 'state' | 'dependsOn' | 'result' | 'resultBytes' | 'error'> {
  key: string
  state: RowState | null
  /** JSON. */
  dependsOn: string
  bytes: number
  errorBytes: number
}

/** A job that has ended otherwise than completed may be retried, and then says nothing of the step any more. */
const ITS_JOB = (schema: string) => `LEFT JOIN ${schema}.jobs j ON j.id = s.job_id
    AND (s.progress IN ('started', 'completed') OR j.generation = 0)
  LEFT JOIN ${schema}.job_bodies b ON b.id = j.id
  LEFT JOIN ${schema}.workflow_errors e ON e.key = s.key`
/** The job's own error comes first: it may be newer than the one that the step kept of the job's end. */
const ERROR = 'coalesce(b.error, e.error)'

async function findWorkflow(
  schema: string,
  reader: Reader,
  id: string,
): Promise<WorkflowRow | null> {
  const heads = await reader.rows(`SELECT ${HEAD} FROM ${schema}.workflows w WHERE w.id = $1`, [id])
  const [head] = heads as readonly unknown[] as WorkflowHead[]
  if (head === undefined) return null
  // The columns of the job's row come first, but for the state: they may be newer (a late report).
  const text = `SELECT s.key, s.step_id AS id, s.type, s.is_callback AS "isCallback",
      c.depends_on AS "dependsOn", s.progress, coalesce(s.job_state, j.state) AS state,
      s.job_id AS "jobId", coalesce(j.started_at, s.started_at) AS "startedAt",
      s.ended_at AS "endedAt", coalesce(j.attempt, s.attempt, 0) AS attempt,
      coalesce(octet_length(b.result), 0) AS bytes,
      CASE s.progress WHEN 'completed' THEN 0 ELSE coalesce(octet_length(${ERROR}), 0) END
        AS "errorBytes"
    FROM ${schema}.workflow_steps s JOIN ${schema}.workflow_sources c ON c.key = s.key
    ${ITS_JOB(schema)} WHERE ${isNodeOf('s.key', '$1::text')} AND s.type IS NOT NULL ORDER BY s.key`
  const columns = (await reader.rows(text, [id])) as readonly unknown[] as StepColumns[]
  const shown = shownSteps(columns)
  const results = await resultsOf(schema, reader, shown)
  const errors = await errorsOf(schema, reader, shown)
  return { ...head, startedAt: firstStart(columns), steps: shown.map(toStep(results, errors)) }
}

function toStep(results: ReadonlyMap<string, string | null>, errors: ReadonlyMap<string, string>) {
  return (shown: Shown<StepColumns>): WorkflowStep => {
    const { key, bytes, errorBytes: _, isShown, error, ...step } = shown
    return {
      ...step,
      dependsOn: JSON.parse(step.dependsOn) as string[],
      // A step without a job waits for other steps. This is not the state of a staged job (OJS workflows).
      state: step.state ?? 'pending',
      result: isShown ? (results.get(step.jobId ?? '') ?? null) : null,
      resultBytes: bytes,
      error: error && (errors.get(key) ?? null),
    }
  }
}

async function resultsOf(
  schema: string,
  reader: Reader,
  steps: readonly Shown<StepColumns>[],
): Promise<Map<string, string | null>> {
  const ids = steps.flatMap(({ isShown, jobId }) => (isShown && jobId !== null ? [jobId] : []))
  if (ids.length === 0) return new Map()
  const text = `SELECT b.id, b.result FROM ${schema}.job_bodies b WHERE b.id = ANY($1::text[])`
  const rows = await reader.rows(text, [ids])
  return new Map(rows.map(({ id, result }) => [String(id), result as string | null]))
}

/** Bytes of errors that are in memory at once. */
const MAX_ERRORS_AT_ONCE = 4 * 1024 * 1024

/** By key. Those of which a brief form is shown are read whole, few at a time: JSON functions do not take every text. */
async function errorsOf(
  schema: string,
  reader: Reader,
  steps: readonly Shown<StepColumns>[],
): Promise<Map<string, string>> {
  const errors = new Map<string, string>()
  const text = `SELECT s.key, ${ERROR} AS error FROM ${schema}.workflow_steps s ${ITS_JOB(schema)}
    WHERE s.key = ANY($1::text[]) AND ${ERROR} IS NOT NULL`
  for (const part of inParts(steps.filter(({ error }) => error !== null))) {
    const brief = new Set(part.filter(({ error }) => error === 'brief').map(({ key }) => key))
    for (const { key, error } of await reader.rows(text, [part.map((step) => step.key)])) {
      const { code, message } = brief.has(key) ? membersOf(jsonOrNull(error)) : {}
      errors.set(key, brief.has(key) ? briefError(code, message) : error)
    }
  }
  return errors
}

function inParts(steps: readonly Shown<StepColumns>[]): Shown<StepColumns>[][] {
  const parts: Shown<StepColumns>[][] = []
  let bytes = MAX_ERRORS_AT_ONCE
  for (const step of steps) {
    if (bytes >= MAX_ERRORS_AT_ONCE) {
      parts.push([])
      bytes = 0
    }
    parts.at(-1)?.push(step)
    bytes += step.errorBytes
  }
  return parts
}
