import { nextTick } from 'node:process'
import type { WorkflowNews } from '../ledger/workflows.ts'
import { followCancel } from './cancel.ts'
import type { Deps } from './deps.ts'
import { storedEvent } from './push.ts'
import { sendOrLeave } from './send-token.ts'

/**
 * Behind a commit that moved workflows: the tokens of jobs that began in it, and the events. For
 * `WorkflowLedger.onNews`: the commit was that of an ACK, a report, a timer, and whoever wrote it
 * knows nothing of what begins with it. What cannot be sent now is owed by the outbox.
 */
export function followWorkflows(deps: Deps, news: readonly WorkflowNews[]): void {
  // At once, before anybody else can see that the outbox owes them: nobody sends them twice.
  for (const one of news) {
    if (one.what === 'born') {
      // A worker may have begun it before it is told of below.
      deps.events.hold({ type: storedEvent(one.job), job: one.job })
      if (one.job.outbox !== null) void sendOrLeave(deps, one.job)
    }
  }
  // The same commit may have stored, started or failed what is replaced: when that write has been
  // followed there is a delivery to settle, and a token known to be on its way. Behind the promises
  // of all writes, and before RabbitMQ can say anything.
  queueMicrotask(() => nextTick(() => followReplaced(deps, news)))
  // Behind the events of the jobs whose end this is: whoever ended them tells of it first.
  setImmediate(() => {
    for (const one of news) tell(deps, one)
  })
}

function followReplaced(deps: Deps, news: readonly WorkflowNews[]): void {
  for (const one of news) {
    if (one.what === 'replaced') void followCancel(deps, one.cancelled, { requestId: deps.newId() })
  }
}

function tell({ events }: Deps, news: WorkflowNews): void {
  const { workflow } = news
  switch (news.what) {
    case 'born':
      events.release(news.job.id)
      return
    case 'replaced':
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
