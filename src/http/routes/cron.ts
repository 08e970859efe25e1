/** `/cron`: recurring jobs are registered, listed, changed, paused, run and deleted. */
import type { Request, Response } from 'express'
import { invalidField } from '../../errors.ts'
import type { CronEntry } from '../../job/cron/entry.ts'
import { checkExpression } from '../../job/cron/expression.ts'
import { ticksOf } from '../../job/cron/times.ts'
import type { CronWarning } from '../../job/cron/warnings.ts'
import { checkZone } from '../../job/cron/zone.ts'
import { jobDocument, timestamp } from '../../job/document.ts'
import { isOptionMember } from '../../job/members.ts'
import { changeCron, cronRuns, triggerCron } from '../../operations/cron/change.ts'
import { findCron, listCron, registerCron, removeCron } from '../../operations/cron/cron.ts'
import { readJson, readOptionalJson } from '../message/body.ts'
import { pageOf, pagination, shortened } from '../message/page.ts'
import { flag, integer, parameter } from '../message/query.ts'
import { answer, replayHeader } from '../message/respond.ts'
import {
  CHANGE_CRON,
  DELETE_CRON,
  GET_CRON,
  LIST_CRON,
  LIST_CRON_RUNS,
  LIST_CRON_TIMES,
  PAUSE_CRON,
  PUT_CRON,
  REGISTER_CRON,
  RESUME_CRON,
  TRIGGER_CRON,
} from '../openapi/cron.ts'
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
      async handle(request, response) {
        const page = pageOf(request)
        const { entries, total } = await listCron(deps, page)
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
      async handle(request, response) {
        answer(response, 200, cronBody(await findCron(deps, pathParameter(request, 'name'))))
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
    ...changeRoutes({ deps }),
    timesRoute({ deps }),
  ]
}

const MAX_TIMES = 20

/** What an expression means, before or after an entry has it. */
function timesRoute({ deps }: Pick<Door, 'deps'>): Endpoint {
  return {
    method: 'GET',
    path: '/ojs/v1/admin/cron/times',
    about: LIST_CRON_TIMES,
    access: ['operator'],
    handle(request, response) {
      const expression = parameter(request, 'expression') ?? ''
      const timezone = parameter(request, 'timezone') ?? 'UTC'
      checkExpression(expression, 'expression')
      checkZone(timezone, 'timezone')
      const limit = Math.min(integer(request, 'limit', 5), MAX_TIMES)
      const times = ticksOf({ expression, timezone }, deps.clock.wall(), limit).map(timestamp)
      answer(response, 200, JSON.stringify({ expression, timezone, times }))
    },
  }
}

/** PUT, PATCH, pause and resume; `runRoutes`: what becomes of the entry's runs. */
function changeRoutes({ deps }: Pick<Door, 'deps'>): Endpoint[] {
  const change = async (request: Request, response: Response, body: Record<string, unknown>) => {
    const name = pathParameter(request, 'name')
    const { entry, warnings } = await changeCron(deps, name, body, request.context)
    answer(response, 200, cronBody(entry, warnings))
  }
  const switchRoute = (verb: 'pause' | 'resume', enabled: boolean): Endpoint => ({
    method: 'POST',
    path: `${CRON}/:name/${verb}`,
    about: enabled ? RESUME_CRON : PAUSE_CRON,
    access: ['operator'],
    async handle(request, response) {
      await readOptionalJson(request, response, deps.settings.maxBodyBytes)
      await change(request, response, { enabled })
    },
  })
  return [
    {
      method: 'PUT',
      path: `${CRON}/:name`,
      about: PUT_CRON,
      access: ['operator'],
      async handle(request, response) {
        const name = pathParameter(request, 'name')
        const given = await readJson(request, response, deps.settings.maxBodyBytes)
        const body = { ...given, name: given['name'] ?? name }
        if (body.name !== name) {
          throw invalidField('name', "The 'name' field must be the name in the path.")
        }
        const registered = await registerCron(deps, body, request.context, { isReplacing: true })
        const { entry, isReplaced, isReplay, warnings } = registered
        const headers = replayHeader(isReplay)
        answer(response, isReplaced ? 200 : 201, cronBody(entry, warnings), ...headers)
      },
    },
    {
      method: 'PATCH',
      path: `${CRON}/:name`,
      about: CHANGE_CRON,
      access: ['operator'],
      async handle(request, response) {
        const body = await readJson(request, response, deps.settings.maxBodyBytes)
        await change(request, response, body)
      },
    },
    switchRoute('pause', false),
    switchRoute('resume', true),
    ...runRoutes({ deps }),
  ]
}

function runRoutes({ deps }: Pick<Door, 'deps'>): Endpoint[] {
  return [
    {
      method: 'POST',
      path: `${CRON}/:name/trigger`,
      about: TRIGGER_CRON,
      access: ['operator'],
      async handle(request, response) {
        const body = await readOptionalJson(request, response, deps.settings.maxBodyBytes)
        const name = pathParameter(request, 'name')
        const { job, isReplay } = await triggerCron(deps, name, body, request.context)
        const ids = `"job_id":${JSON.stringify(job.id)},"cron_name":${JSON.stringify(name)}`
        const headers = ['Location', `/ojs/v1/jobs/${job.id}`, ...replayHeader(isReplay)]
        answer(response, 201, `{${ids},"job":${jobDocument(job)}}`, ...headers)
      },
    },
    {
      method: 'GET',
      path: `${CRON}/:name/history`,
      about: LIST_CRON_RUNS,
      access: ['operator'],
      async handle(request, response) {
        const page = pageOf(request)
        const { runs, total } = await cronRuns(deps, pathParameter(request, 'name'), page)
        const executions = runs.map(runDocument)
        answer(response, 200, JSON.stringify({ executions, pagination: pagination(page, total) }))
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
    // OJS cron wants it to be null, and not absent.
    ...(!isEnabled && { next_run_at: null }),
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

type Runs = Awaited<ReturnType<typeof cronRuns>>['runs']

/** A run as in OJS's command line; of a time that made no job, why. */
function runDocument(run: Runs[number]): object {
  const { jobId, state, reason, isManual, scheduledAt, startedAt, endedAt } = run
  if (jobId === null) return { skipped: true, reason, scheduled_at: timestamp(scheduledAt) }
  return {
    job_id: jobId,
    state,
    scheduled_at: timestamp(scheduledAt),
    ...(isManual && { manual: true }),
    ...(startedAt !== null && { started_at: timestamp(startedAt) }),
    ...(endedAt !== null && { completed_at: timestamp(endedAt) }),
  }
}
