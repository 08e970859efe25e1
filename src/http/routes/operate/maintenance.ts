/** `/admin/system`: maintenance mode, and the settings in use. */
import { timestamp } from '../../../job/document.ts'
import { currentMaintenance, setMaintenance } from '../../../operations/maintenance.ts'
import { readJson } from '../../message/body.ts'
import { answer } from '../../message/respond.ts'
import { under } from '../../openapi/description.ts'
import { GET_CONFIG, GET_MAINTENANCE, SET_MAINTENANCE } from '../../openapi/operate/maintenance.ts'
import type { Endpoint } from '../../route.ts'
import type { Door } from '../route-deps.ts'

/** Each with the name that OJS's command line uses. */
const MAINTENANCE = ['/ojs/v1/admin/system/maintenance', '/ojs/v1/admin/maintenance'] as const
const CONFIG = ['/ojs/v1/admin/system/config', '/ojs/v1/admin/config'] as const

/** Maintenance mode and the settings (OJS admin API); not part of the seeds. */
export function maintenanceRoutes({ deps, shownConfig }: Door): Endpoint[] {
  const maintenance = MAINTENANCE.flatMap((path): Endpoint[] => [
    {
      method: 'GET',
      path,
      about: under(path, MAINTENANCE, GET_MAINTENANCE),
      access: ['operator'],
      handle(_request, response) {
        answer(response, 200, maintenanceDocument(currentMaintenance(deps)))
      },
    },
    {
      method: 'POST',
      path,
      about: under(path, MAINTENANCE, SET_MAINTENANCE),
      async handle(request, response) {
        const body = await readJson(request, response, deps.settings.maxBodyBytes)
        answer(
          response,
          200,
          maintenanceDocument(await setMaintenance(deps, body, request.context)),
        )
      },
    },
  ])
  const config = CONFIG.map(
    (path): Endpoint => ({
      method: 'GET',
      path,
      about: under(path, CONFIG, GET_CONFIG),
      access: ['operator'],
      handle(_request, response) {
        answer(response, 200, JSON.stringify(shownConfig))
      },
    }),
  )
  return [...maintenance, ...config]
}

/** The members of OJS's document, and those that its admin pages read. */
function maintenanceDocument(maintenance: ReturnType<typeof currentMaintenance>): string {
  if (maintenance === null) return '{"enabled":false,"maintenance":false}'
  const { startedAt, endsAt, reason } = maintenance
  const start = timestamp(startedAt)
  const end = endsAt === null ? null : timestamp(endsAt)
  return JSON.stringify({
    enabled: true,
    maintenance: true,
    ...(reason !== null && { reason }),
    started_at: start,
    enabled_at: start,
    ...(end !== null && { ends_at: end, estimated_end: end }),
  })
}
