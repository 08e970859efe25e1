/** Publishes the workflow steps that a commit has begun, and emits the workflow's events. */
import { nextTick } from 'node:process'
import type { JobRow } from '../../job/job.ts'
import type { WorkflowNews } from '../../ledger/workflows.ts'
import { followCancel } from '../cancel.ts'
import type { Deps } from '../deps.ts'
import { storedEvent } from '../enqueue/push.ts'
import { sendOrLeave } from '../job-messages/send.ts'

/**
 * Publishes the messages of jobs that a commit has begun in workflows, and emits the events. The handler of
 * `WorkflowLedger.onNews`: the commit was that of an ACK, a report or a timer, whose operation knows nothing
 * of the workflow. Job messages that cannot be published now stay owed by the outbox.
 */
export function followWorkflows(deps: Deps, news: readonly WorkflowNews[]): void {
  // Sent at once, before the relay can see that the outbox owes them, so that none is sent twice.
  for (const item of news) if (item.what === 'born') send(deps, item.job)
  behindWriters(() => {
    for (const item of news) follow(deps, item)
  })
}

/**
 * Publishes the job message; holds the job's first event, as a worker may start the job before `follow` runs.
 */
function send(deps: Deps, job: JobRow): void {
  deps.events.hold({ type: storedEvent(job), job })
  if (job.outbox !== null) void sendOrLeave(deps, job)
}

/**
 * Runs `follow` after all operations whose writes are in the commit have continued, and before anything
 * comes from RabbitMQ. Each operation then has emitted the event of the job that it ended. If the same commit
 * stored, started or failed a job that a step replaces, that operation has by then noted the delivery to
 * settle or the job message on its way. Works because a tick requested in a microtask runs when no microtask
 * is left.
 */
function behindWriters(follow: () => void): void {
  queueMicrotask(() => nextTick(follow))
}

function follow(deps: Deps, news: WorkflowNews): void {
  const { events } = deps
  const { workflow } = news
  switch (news.what) {
    case 'born':
      events.release(news.job.id)
      return
    case 'replaced':
      void followCancel(deps, news.cancelled, { requestId: deps.newId() })
      return
    case 'step':
      if (news.step.outcome === 'completed') {
        events.emit({ type: 'workflow.step_completed', workflow, step: news.step })
      }
      return
    case 'ended':
      if (workflow.state === 'completed') events.emit({ type: 'workflow.completed', workflow })
      else events.emit({ type: 'workflow.failed', workflow, step: news.failed })
  }
}
