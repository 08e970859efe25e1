/** One workflow: its graph, and its steps in the order of their levels, each with its job, result or error. */
import { Link, useParams } from '@tanstack/react-router'
import { lazy, type ReactNode, Suspense } from 'react'
import { call } from '../../api/client.ts'
import type { WorkflowStep } from '../../api/openapi.ts'
import { useApi } from '../../api/queries.ts'
import { useMay } from '../../api/session.ts'
import { number } from '../../text/format.ts'
import { t } from '../../text/text.ts'
import { Action } from '../../ui/action.tsx'
import { Loaded } from '../../ui/answer.tsx'
import { Card, Page } from '../../ui/page.tsx'
import { Raw } from '../../ui/raw.tsx'
import { State } from '../../ui/state.tsx'
import { Tree } from '../../ui/tree.tsx'

/** Most visitors never need it, and it is a third of the console. */
const WorkflowGraph = lazy(async () => {
  const { WorkflowGraph: component } = await import('./graph.tsx')
  return { default: component }
})

/** A larger one is a list only: nobody could read it, and its layout would take seconds. */
const MOST_DRAWN = 500

export function WorkflowPage(): ReactNode {
  const { id } = useParams({ from: '/workflows/$id' })
  const may = useMay()
  const workflow = useApi('GET /ojs/v1/workflows/{id}', { path: { id } }, { every: 2_000 })
  const data = workflow.data?.workflow
  return (
    <Page
      title={data?.name ?? t.workflows.one}
      aside={data && <State of={data.state} />}
      actions={
        data?.state === 'running' &&
        may('DELETE /ojs/v1/workflows/{id}') && (
          <Action
            name={t.workflows.cancel}
            isDangerous
            question={<p>{t.workflows.cancelQuestion}</p>}
            act={() => call('DELETE /ojs/v1/workflows/{id}', { path: { id } })}
            done={t.workflows.cancelled}
          />
        )
      }
    >
      <Loaded of={workflow}>
        {({ workflow: { steps, callbacks = [], steps_total: total, steps_completed: done } }) => (
          <>
            <p className="faint">
              <code>{id}</code> · {t.workflows.progress(number(done), number(total))}
            </p>
            <progress aria-label={t.workflows.steps} max={Math.max(1, total)} value={done} />
            {steps.length + callbacks.length <= MOST_DRAWN && (
              <Suspense fallback={<div className="graph loading">{t.loading}</div>}>
                <WorkflowGraph steps={steps} callbacks={callbacks} onChoose={showStep} />
              </Suspense>
            )}
            {levelsOf(steps).map((level, depth) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: a level is its depth
              <div key={depth} className="level">
                {level.map((step) => (
                  <Step key={step.id} step={step} />
                ))}
              </div>
            ))}
            {callbacks.length > 0 && (
              <div className="level">
                {callbacks.map((step) => (
                  <Step key={step.id} step={step} />
                ))}
              </div>
            )}
          </>
        )}
      </Loaded>
    </Page>
  )
}

function showStep(id: string): void {
  const card = document.getElementById(anchorOf(id))
  card?.scrollIntoView({ block: 'center', behavior: 'smooth' })
  card?.focus({ preventScroll: true })
}

function anchorOf(id: string): string {
  return `step ${id}`
}

/** Steps that wait for none, then those that wait for these only, and so on. */
function levelsOf(steps: readonly WorkflowStep[]): WorkflowStep[][] {
  const levels: WorkflowStep[][] = []
  const placed = new Set<string>()
  let left = [...steps]
  while (left.length > 0) {
    const ready = left.filter((step) => step.depends_on.every((id) => placed.has(id)))
    // A name that no step has: the rest stands in one level.
    const level = ready.length > 0 ? ready : left
    levels.push(level)
    for (const { id } of level) placed.add(id)
    left = left.filter((step) => !level.includes(step))
  }
  return levels
}

function Step({ step }: { step: WorkflowStep }): ReactNode {
  const { id, type, state, job_id: jobId, depends_on: before, result, error } = step
  return (
    <Card title={id} aside={<State of={state} />} anchor={anchorOf(id)}>
      <p>
        {jobId === null ? (
          type
        ) : (
          <Link to="/jobs/$id" params={{ id: jobId }} data-row>
            {type}
          </Link>
        )}
      </p>
      {before.length > 0 && (
        <p className="faint">
          <Raw text={t.workflows.after(before.join(', '))} />
        </p>
      )}
      {error !== undefined && (
        <p className="message">
          <Raw text={error.message} />
        </p>
      )}
      {result !== undefined && result !== null && <Tree value={result} name={t.job.result} />}
    </Card>
  )
}
