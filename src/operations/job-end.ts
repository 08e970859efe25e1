/** What follows the commit that ended a job: the end of a cancelled one, and the steps of workflows that it began. */
import { nextTick } from 'node:process'
import type { JobRow } from '../job/job.ts'
import type { Cancelled, WorkflowNews } from '../ledger/ended.ts'
import { storedEvent } from '../telemetry/events.ts'
import type { Deps, RequestContext } from './deps.ts'
import { isUnsent, sendOrLeave } from './job-messages/send.ts'
import { noteEnded, settleLease } from './lease/lease-end.ts'
import { briefly } from './workers/broadcasts.ts'

/** As `followCancel`, but waits for the broadcast, if the row owes one, for a second at most. */
export async function followBriefly(
  deps: Deps,
  cancelled: Cancelled,
  context: RequestContext,
): Promise<void> {
  const told = followCancel(deps, cancelled, context)
  if (cancelled.job.outbox !== null) await briefly(told)
}

/** Does what follows the commit of a cancel. Resolves when the broadcast to the workers was tried. */
export async function followCancel(
  deps: Deps,
  cancelled: Cancelled,
  context: RequestContext,
): Promise<void> {
  const { job } = cancelled
  noteCancelled(deps, cancelled, context.requestId)
  if (job.outbox !== null) await sendOrLeave(deps, job)
}

/** As `followCancel`, but leaves the broadcast to the relay. `inBulk`: one of many. */
export function noteCancelled(
  deps: Deps,
  cancelled: Cancelled,
  requestId: string | undefined,
  inBulk?: true,
): void {
  const { job, previousState, news } = cancelled
  if (news !== undefined) followNews(deps, news)
  if (settleLease(deps, job.id) || isUnsent(deps, cancelled)) {
    deps.ledger.messageReturned(job.id, job.generation)
  }
  noteEnded(deps, job)
  deps.events.emit({ type: 'job.cancelled', job, previousState, requestId, inBulk })
}

/**
 * Publishes the messages of jobs that a commit has begun in workflows, and emits the events. Called with the
 * `news` of an outcome as soon as its write has resolved, before anything else is awaited. Job messages that cannot
 * be published now stay owed by the outbox.
 */
export function followNews(deps: Deps, news: readonly WorkflowNews[]): void {
  // Sent at once, before the relay can see that the outbox owes them, so that none is sent twice.
  for (const item of news) if (item.what === 'born') send(deps, item.job)
  // After all operations whose writes are in the commit have continued, because a tick that is requested in a
  // microtask runs when no microtask is left; and before anything comes from RabbitMQ. Each operation then has
  // emitted the event of the job that it ended. If the same commit stored, started or failed a job that a step
  // replaces, that operation has by then noted the delivery to settle or the job message on its way.
  nextTick(() => {
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
