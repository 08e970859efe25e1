/** Every page and its address. Addresses stand behind `#`, so that the gateway may be below any path. */
import {
  createHashHistory,
  createRootRoute,
  createRoute,
  createRouter,
  Link,
} from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { AuditPage } from '../pages/audit.tsx'
import { CronPage } from '../pages/cron/cron-page.tsx'
import { DeadLettersPage, groupIn } from '../pages/dead-letters.tsx'
import { EventsPage } from '../pages/events.tsx'
import { FailuresPage } from '../pages/failures.tsx'
import { JobPage } from '../pages/job/job-page.tsx'
import { JobsPage } from '../pages/jobs/jobs-page.tsx'
import { OverviewPage } from '../pages/overview.tsx'
import { QueuePage } from '../pages/queues/queue-page.tsx'
import { QueuesPage } from '../pages/queues/queues-page.tsx'
import { RabbitmqPage } from '../pages/rabbitmq/rabbitmq-page.tsx'
import { SchemasPage } from '../pages/schemas.tsx'
import { SystemPage } from '../pages/system.tsx'
import { WaitingPage } from '../pages/waiting.tsx'
import { WorkersPage } from '../pages/workers/workers-page.tsx'
import { WorkflowPage } from '../pages/workflow/workflow-page.tsx'
import { WorkflowsPage } from '../pages/workflows.tsx'
import { t } from '../text/text.ts'
import { Trouble } from '../ui/answer.tsx'
import { Page } from '../ui/page.tsx'
import { Shell } from './shell.tsx'

const root = createRootRoute({
  component: Shell,
  notFoundComponent: NotFound,
  errorComponent: ({ error }) => <Trouble error={error} />,
})

function NotFound(): ReactNode {
  return (
    <Page title={t.errors.noPage}>
      <p>
        <Link to="/">{t.nav.overview}</Link>
      </p>
    </Page>
  )
}

const page = <P extends string>(path: P, component: () => ReactNode) =>
  createRoute({ getParentRoute: () => root, path, component })

/** The search is in the address, so that it can be sent to somebody. */
const jobs = createRoute({
  getParentRoute: () => root,
  path: '/jobs',
  component: JobsPage,
  validateSearch: (search: Record<string, unknown>): { q?: string } =>
    typeof search['q'] === 'string' && search['q'] !== '' ? { q: search['q'] } : {},
})

/** So is the chosen group: what is done with all that match must not change when one comes back. */
const deadLetters = createRoute({
  getParentRoute: () => root,
  path: '/dead-letters',
  component: DeadLettersPage,
  validateSearch: groupIn,
})

const routeTree = root.addChildren([
  page('/', OverviewPage),
  page('/queues', QueuesPage),
  page('/queues/$name', QueuePage),
  jobs,
  page('/jobs/$id', JobPage),
  page('/failures', FailuresPage),
  deadLetters,
  page('/waiting', WaitingPage),
  page('/cron', CronPage),
  page('/workers', WorkersPage),
  page('/workflows', WorkflowsPage),
  page('/workflows/$id', WorkflowPage),
  page('/rabbitmq', RabbitmqPage),
  page('/schemas', SchemasPage),
  page('/events', EventsPage),
  page('/audit', AuditPage),
  page('/system', SystemPage),
])

export const router = createRouter({ routeTree, history: createHashHistory() })

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
