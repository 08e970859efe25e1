/** Progress and checkpoints of running jobs: reported by their workers, read by all. */
import type { Request, Response } from 'express'
import { timestamp } from '../../job/document.ts'
import type { Checkpoint } from '../../job/job.ts'
import {
  deleteCheckpoint,
  readCheckpoint,
  saveCheckpoint,
} from '../../operations/lease/checkpoint.ts'
import { type Progress, readProgress, reportProgress } from '../../operations/lease/progress.ts'
import { readJson } from '../message/body.ts'
import { progressText } from '../message/progress-events.ts'
import { answer } from '../message/respond.ts'
import {
  DELETE_CHECKPOINT,
  POST_CHECKPOINT,
  PUT_CHECKPOINT,
  PUT_PROGRESS,
  READ_CHECKPOINT,
  READ_PROGRESS,
  REPORT_PROGRESS,
} from '../openapi/progress.ts'
import { type Endpoint, ofPath, pathParameter } from '../route.ts'
import type { Door } from './route-deps.ts'

const PROGRESS = '/ojs/v1/jobs/:id/progress'
const CHECKPOINT = '/ojs/v1/jobs/:id/checkpoint'

/** Progress and checkpoints (OJS progress, OJS durable execution); not part of the seeds. */
export function progressRoutes(door: Door): Endpoint[] {
  return [
    {
      method: 'PUT',
      path: PROGRESS,
      about: PUT_PROGRESS,
      access: ['worker'],
      scoping: 'own',
      async handle(request, response) {
        const body = await readJson(request, response, door.deps.settings.maxBodyBytes)
        const told = await reportProgress(door.deps, ofPath(request, body), request.context)
        answerProgress(response, told)
      },
    },
    {
      method: 'POST',
      path: '/ojs/v1/workers/progress',
      about: REPORT_PROGRESS,
      access: ['worker'],
      scoping: 'own',
      async handle(request, response) {
        const body = await readJson(request, response, door.deps.settings.maxBodyBytes)
        answerProgress(response, await reportProgress(door.deps, body, request.context))
      },
    },
    {
      method: 'GET',
      path: PROGRESS,
      about: READ_PROGRESS,
      access: ['producer', 'worker', 'operator'],
      scoping: 'job',
      async handle(request, response) {
        answerProgress(response, await readProgress(door.deps, pathParameter(request, 'id')))
      },
    },
    ...(['PUT', 'POST'] as const).map(
      (method): Endpoint => ({
        method,
        path: CHECKPOINT,
        about: method === 'PUT' ? PUT_CHECKPOINT : POST_CHECKPOINT,
        access: ['worker'],
        scoping: 'own',
        handle: (request, response) => save(door, request, response),
      }),
    ),
    {
      method: 'GET',
      path: CHECKPOINT,
      about: READ_CHECKPOINT,
      access: ['worker', 'operator'],
      scoping: 'job',
      async handle(request, response) {
        const id = pathParameter(request, 'id')
        const checkpoint = await readCheckpoint(door.deps, id)
        const facts = JSON.stringify(factsOf(id, checkpoint)).slice(0, -1)
        const whole = `${facts},"state":${checkpoint.state}`
        answer(response, 200, `${whole},"checkpoint":${whole}}}`)
      },
    },
    {
      method: 'DELETE',
      path: CHECKPOINT,
      about: DELETE_CHECKPOINT,
      access: ['worker', 'operator'],
      scoping: 'job',
      async handle(request, response) {
        const id = pathParameter(request, 'id')
        const deleted = await deleteCheckpoint(door.deps, id)
        answer(response, 200, JSON.stringify({ deleted, job_id: id }))
      },
    },
  ]
}

async function save({ deps }: Door, request: Request, response: Response): Promise<void> {
  const body = ofPath(request, await readJson(request, response, deps.settings.maxBodyBytes))
  const checkpoint = await saveCheckpoint(deps, body, request.context)
  const facts = factsOf(pathParameter(request, 'id'), checkpoint)
  answer(response, 200, JSON.stringify({ ...facts, checkpoint: facts }))
}

/** OJS's document has them in `checkpoint`; its suite and clients read them beside. */
function factsOf(id: string, { sequence, createdAt }: Checkpoint): object {
  return { job_id: id, sequence, created_at: timestamp(createdAt) }
}

function answerProgress(response: Response, progress: Progress): void {
  const { note } = progress
  const headers = ['Cache-Control', 'no-cache']
  if (note?.progress != null) headers.push('X-OJS-Progress', String(note.progress))
  answer(response, 200, progressText(progress), ...headers)
}
