/** Actions on many jobs: bulk enqueue, retry, cancel and delete, and operations in the background. */
import type { Request, Response } from 'express'
import { notFound } from '../../../errors.ts'
import { JOB_ACTIONS, type JobAction } from '../../../job/steer.ts'
import {
  actOnIds,
  beginOperation,
  dryRun,
  findOperation,
  listOperations,
  matchingIds,
  runToEnd,
  stopOperation,
} from '../../../operations/steer/bulk.ts'
import {
  adminBulk,
  type BulkRequest,
  dataBulk,
  MAX_IDS,
} from '../../../operations/steer/bulk-request.ts'
import { pushMany } from '../../../operations/steer/push-many.ts'
import type { Access } from '../../access/roles.ts'
import { readJson, readJsonList, readOptionalJson } from '../../message/body.ts'
import { adminPageOf, memoryPagination, startOf } from '../../message/page.ts'
import { answer, answerDryRun } from '../../message/respond.ts'
import {
  adminBulkOf,
  dataBulkOf,
  GET_OPERATION,
  LIST_OPERATIONS,
  PUSH_MANY,
  STOP_OPERATION,
} from '../../openapi/steer.ts'
import { type Endpoint, pathParameter } from '../../route.ts'
import type { Door } from '../route-deps.ts'
import {
  adminAnswer,
  adminIdsAnswer,
  dataAnswer,
  dataItemsAnswer,
  dryRunDocument,
  manyDocument,
  operationDocument,
} from './bulk-documents.ts'

const OPERATIONS = '/ojs/v1/admin/operations'
/** Deletes cannot be undone, so that they are for admins (OJS admin API). */
const ACCESS: Readonly<Record<JobAction, Access>> = {
  retry: ['operator'],
  cancel: ['operator'],
  delete: [],
}

/** Bulk operations of both documents (OJS bulk operations, OJS admin API); not part of the seeds. */
export function bulkRoutes(door: Door): Endpoint[] {
  return [
    ...JOB_ACTIONS.flatMap((action) => actionRoutes(door, action)),
    enqueueRoute(door),
    ...operationRoutes(door),
  ]
}

function actionRoutes(door: Door, action: JobAction): Endpoint[] {
  const { deps } = door
  const common = { method: 'POST', access: ACCESS[action], scoping: 'own' } as const
  return [
    {
      ...common,
      path: `/ojs/v1/admin/jobs/bulk/${action}`,
      about: adminBulkOf(action),
      async handle(request, response) {
        const body = await readJson(request, response, deps.settings.maxBodyBytes)
        const asked = adminBulk(action, body, deps.clock.now(), request.context)
        await answerAdmin(door, request, response, asked)
      },
    },
    {
      ...common,
      path: `/ojs/v1/jobs/bulk/${action}`,
      about: dataBulkOf(action),
      async handle(request, response) {
        const body = await readJson(request, response, deps.settings.maxBodyBytes)
        const asked = dataBulk(action, body, deps.clock.now(), request.context)
        await answerData(door, request, response, asked)
      },
    },
  ]
}

/** Carries out a request of the Admin API, and answers; also for dead letters. */
export async function answerAdmin(
  { deps }: Door,
  { context }: Request,
  response: Response,
  asked: BulkRequest,
): Promise<void> {
  if (asked.ids !== null && !asked.isDryRun) {
    const { acted } = await actOnIds(deps, asked.ids, asked.how, false, context)
    return answer(response, 200, JSON.stringify(adminIdsAnswer(asked, acted)))
  }
  if (asked.isDryRun) {
    return answerDryRun(response, JSON.stringify(await dryRunOf(deps, asked, context)))
  }
  if (asked.isAsync) {
    const operation = await beginOperation(deps, asked, context)
    deps.bulk.began()
    return answerOperation(response, 202, operationDocument(operation))
  }
  const operation = await runToEnd(deps, asked, context)
  // It goes on: a client that would repeat the request would begin another.
  if (operation.state === 'running') {
    return answerOperation(response, 202, operationDocument(operation))
  }
  answer(response, 200, JSON.stringify(adminAnswer(operation)))
}

function answerOperation(
  response: Response,
  status: number,
  document: Record<string, unknown>,
): void {
  const place = ['Location', `${OPERATIONS}/${String(document['id'])}`]
  answer(response, status, JSON.stringify(document), ...place)
}

async function answerData(
  { deps }: Door,
  { context }: Request,
  response: Response,
  asked: BulkRequest,
): Promise<void> {
  const { how, isAtomic, isDryRun } = asked
  if (isDryRun) {
    return answerDryRun(response, JSON.stringify(await dryRunOf(deps, asked, context)))
  }
  const matching = asked.ids ? null : await matchingIds(deps, asked, MAX_IDS, context)
  if (matching?.isMore && !isAtomic) {
    const operation = await runToEnd(deps, asked, context)
    const status = operation.state === 'running' ? 202 : 200
    return answer(response, status, JSON.stringify(dataAnswer(operation)))
  }
  const ids = asked.ids ?? matching?.ids ?? []
  const done = await actOnIds(deps, ids, how, isAtomic, context)
  const { status, body } = dataItemsAnswer(ids, how.action, done)
  answer(response, status, JSON.stringify({ ...body, has_more: matching?.isMore ?? false }))
}

async function dryRunOf(
  deps: Door['deps'],
  asked: BulkRequest,
  context: Request['context'],
): Promise<object> {
  const { ids, filter } = asked
  const by = ids === null ? asked : { ...asked, filter: { ...filter, ids } }
  return dryRunDocument(asked, await dryRun(deps, by, context))
}

function enqueueRoute({ deps }: Door): Endpoint {
  return {
    method: 'POST',
    path: '/ojs/v1/jobs/bulk',
    about: PUSH_MANY,
    access: ['producer'],
    scoping: 'own',
    async handle(request, response) {
      const body = await readJsonList(request, response, deps.settings, 'jobs')
      const done = await pushMany(deps, body, request.context)
      const { status, text } = manyDocument(done)
      answer(response, status, text, 'X-OJS-Batch-Size', String(done.items.length))
    },
  }
}

function operationRoutes({ deps }: Door): Endpoint[] {
  return [
    {
      method: 'GET',
      path: OPERATIONS,
      about: LIST_OPERATIONS,
      access: ['operator'],
      scoping: 'own',
      async handle(request, response) {
        const page = adminPageOf(request)
        const place = { limit: page.limit, offset: startOf(page) }
        const { operations, total } = await listOperations(deps, place, request.context)
        const items = operations.map(operationDocument)
        const pagination = memoryPagination(request, page, total)
        answer(response, 200, JSON.stringify({ items, pagination }))
      },
    },
    {
      method: 'GET',
      path: `${OPERATIONS}/:id`,
      about: GET_OPERATION,
      access: ['operator'],
      scoping: 'own',
      async handle(request, response) {
        const id = pathParameter(request, 'id')
        const operation = await findOperation(deps, id, request.context)
        if (operation === null) throw notFound('operation', id)
        answer(response, 200, JSON.stringify(operationDocument(operation)))
      },
    },
    {
      method: 'POST',
      path: `${OPERATIONS}/:id/stop`,
      about: STOP_OPERATION,
      access: ['operator'],
      scoping: 'own',
      async handle(request, response) {
        const id = pathParameter(request, 'id')
        await readOptionalJson(request, response, deps.settings.maxBodyBytes)
        const operation = await stopOperation(deps, id, request.context)
        if (operation === null) throw notFound('operation', id)
        answer(response, 200, JSON.stringify(operationDocument(operation)))
      },
    },
  ]
}
