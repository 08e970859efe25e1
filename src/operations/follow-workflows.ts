import { nextTick } from 'node:process'
import type { JobRow } from '../job/job.ts'
import type { WorkflowNews } from '../ledger/workflows.ts'
import { followCancel } from './cancel.ts'
import type { Deps } from './deps.ts'
import { storedEvent } from './push.ts'
import { sendOrLeave } from './token/send-token.ts'

/**
 * Behind a commit that moved workflows: the tokens of jobs that began in it, and the events. For
 * `WorkflowLedger.onNews`: the commit was that of an ACK, a report, a timer, and whoever wrote it
 * knows nothing of what begins with it. What cannot be sent now is owed by the outbox.
 */
export function followWorkflows(deps: Deps, news: readonly WorkflowNews[]): void {
  // At once, before anybody else can see that the outbox owes them: nobody sends them twice.
  for (const one of news) if (one.what === 'born') send(deps, one.job)
  behindWriters(() => {
    for (const one of news) follow(deps, one)
  })
}

/** A worker may have begun it before it is told of. */
function send(deps: Deps, job: JobRow): void {
  deps.events.hold({ type: storedEvent(job), job })
  if (job.outbox !== null) void sendOrLeave(deps, job)
}

/**
 * When all whose writes are in the commit have gone on from it, and before RabbitMQ can say anything.
 * Each tells first of the job whose end he wrote. And where the same commit has stored, started or
 * failed what a step replaces, there is a delivery to settle by then, and a token known to be on its
 * way. A tick that is asked for in a microtask comes when no microtask is left.
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
