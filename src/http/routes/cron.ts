/** `/cron`: recurring jobs are registered, listed, read and deleted. */
import type { CronEntry } from '../../job/cron/entry.ts'
import type { CronWarning } from '../../job/cron/warnings.ts'
import { timestamp } from '../../job/document.ts'
import { isOptionMember } from '../../job/members.ts'
import { findCron, listCron, registerCron, removeCron } from '../../operations/cron/cron.ts'
import { readJson } from '../message/body.ts'
import { pageOf, pagination, shortened } from '../message/page.ts'
import { flag } from '../message/query.ts'
import { answer, replayHeader } from '../message/respond.ts'
import { DELETE_CRON, GET_CRON, LIST_CRON, REGISTER_CRON } from '../openapi/cron.ts'
import { type Endpoint, pathParameter } from '../route.ts'
import type { Door } from './route-deps.ts'

const CRON = '/ojs/v1/cron'

/**
 * Recurring jobs (seed 001 §13). Each answer has the top-level members of both dialects, which do not collide
 * (ojs-choices S25): `cron_job` and `cron`, `cron_jobs` and `crons`.
 */
export function cronRoutes({ deps }: Door): Endpoint[] {
  return [
    {
      method: 'GET',
      path: CRON,
      about: LIST_CRON,
      access: ['operator'],
      handle(request, response) {
        const page = pageOf(request)
        const { entries, total } = listCron(deps, page)
        const list = `[${entries.map(cronDocument).join(',')}]`
        const end = JSON.stringify(pagination(shortened(page, entries.length, total), total))
        answer(response, 200, `{"cron_jobs":${list},"crons":${list},"pagination":${end}}`)
      },
    },
    {
      method: 'POST',
      path: CRON,
      about: REGISTER_CRON,
      access: ['operator'],
      async handle(request, response) {
        const isReplacing = flag(request, 'replace')
        const body = await readJson(request, response, deps.settings.maxBodyBytes)
        const registered = await registerCron(deps, body, request.context, { isReplacing })
        const { entry, isReplaced, isReplay, warnings } = registered
        const status = isReplaced ? 200 : 201
        const headers = ['Location', `${CRON}/${entry.name}`, ...replayHeader(isReplay)]
        answer(response, status, cronBody(entry, warnings), ...headers)
      },
    },
    {
      method: 'GET',
      path: `${CRON}/:name`,
      about: GET_CRON,
      access: ['operator'],
      handle(request, response) {
        answer(response, 200, cronBody(findCron(deps, pathParameter(request, 'name'))))
      },
    },
    {
      method: 'DELETE',
      path: `${CRON}/:name`,
      about: DELETE_CRON,
      access: ['operator'],
      async handle(request, response) {
        const name = pathParameter(request, 'name')
        await removeCron(deps, name, request.context)
        answer(response, 200, JSON.stringify({ deleted: true, name, cron: { name } }))
      },
    },
  ]
}

function cronBody(entry: CronEntry, warnings: readonly CronWarning[] = []): string {
  const document = cronDocument(entry)
  const warned = warnings.length > 0 ? `,"warnings":${JSON.stringify(warnings)}` : ''
  return `{"cron_job":${document},"cron":${document}${warned}}`
}

/** The members of the request, and the state of its runs; absent members are left out. */
function cronDocument(entry: CronEntry): string {
  const { name, expression, timezone, isEnabled, description } = entry
  const { type, args, schema, ...others } = entry.template
  const options = Object.entries(others).filter(
    ([member, value]) => isShown(member) && value !== null,
  )
  return JSON.stringify({
    name,
    cron: expression,
    expression,
    timezone,
    ...(description !== null && { description }),
    type,
    args,
    ...(schema != null && { schema }),
    ...Object.fromEntries(options),
    overlap_policy: entry.overlap,
    status: isEnabled ? 'active' : 'disabled',
    enabled: isEnabled,
    ...(entry.lastRunAt !== null && { last_run_at: timestamp(entry.lastRunAt) }),
    ...(entry.nextRunAt !== null && { next_run_at: timestamp(entry.nextRunAt) }),
    run_count: entry.runCount,
    ...(entry.lastJobId !== null && { last_job_id: entry.lastJobId }),
    ...(entry.queued.length > 0 && { queued_ticks: entry.queued.length }),
    created_at: timestamp(entry.createdAt),
  })
}

/** `meta`, `options`, and options at the top level are shown, but no member that only the server may set. */
function isShown(member: string): boolean {
  return member === 'options' || isOptionMember(member)
}
