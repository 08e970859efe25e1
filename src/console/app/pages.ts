/** The pages of the navigation, in its order: the address, the name, the key behind `g`, and who may look. */
import type { Endpoint } from '../api/client.ts'
import { useMay, useSession } from '../api/session.ts'
import { t } from '../text/text.ts'

type Address =
  | '/'
  | '/queues'
  | '/jobs'
  | '/failures'
  | '/dead-letters'
  | '/waiting'
  | '/cron'
  | '/workflows'
  | '/workers'
  | '/rabbitmq'
  | '/schemas'
  | '/events'
  | '/audit'
  | '/system'

export interface Place {
  to: Address
  name: string
  /** `g` and this letter lead there. */
  letter: string
  /** What the page cannot do without. */
  needs: Endpoint
  /** It is about all queues together, which a key of some may not see. */
  isOfAll?: true
}

export const PLACES: readonly Place[] = [
  { to: '/', name: t.nav.overview, letter: 'o', needs: 'GET /ojs/v1/admin/stats', isOfAll: true },
  { to: '/queues', name: t.nav.queues, letter: 'q', needs: 'GET /ojs/v1/admin/queues' },
  { to: '/jobs', name: t.nav.jobs, letter: 'j', needs: 'GET /ojs/v1/admin/jobs' },
  { to: '/failures', name: t.nav.failures, letter: 'f', needs: 'GET /ojs/v1/admin/failures' },
  {
    to: '/dead-letters',
    name: t.nav.deadLetters,
    letter: 'd',
    needs: 'GET /ojs/v1/admin/dead-letter',
  },
  { to: '/waiting', name: t.nav.waiting, letter: 's', needs: 'GET /ojs/v1/admin/jobs' },
  { to: '/cron', name: t.nav.cron, letter: 'c', needs: 'GET /ojs/v1/cron' },
  { to: '/workflows', name: t.nav.workflows, letter: 'w', needs: 'GET /ojs/v1/workflows' },
  { to: '/workers', name: t.nav.workers, letter: 'k', needs: 'GET /ojs/v1/admin/workers' },
  { to: '/rabbitmq', name: t.nav.rabbitmq, letter: 'r', needs: 'GET /ojs/v1/admin/rabbitmq' },
  { to: '/schemas', name: t.nav.schemas, letter: 'm', needs: 'GET /ojs/v1/schemas' },
  { to: '/events', name: t.nav.events, letter: 'e', needs: 'GET /ojs/v1/events/stream' },
  { to: '/audit', name: t.nav.audit, letter: 'a', needs: 'GET /ojs/v1/admin/audit' },
  { to: '/system', name: t.nav.system, letter: 'y', needs: 'GET /ojs/v1/health' },
]

/** Those that the caller may look at. */
export function usePlaces(): readonly Place[] {
  const may = useMay()
  const isScoped = useSession().queues !== undefined
  return PLACES.filter(({ needs, isOfAll }) => may(needs) && !(isScoped && isOfAll))
}
