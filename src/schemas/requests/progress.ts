/** The schemas of progress and checkpoints, over HTTP and by control message. */
import { MAX_INT32 } from '../../job/values/limits.ts'
import { id } from './shared-members.ts'
import { parser, workersParser } from './validator.ts'

/** Of the job and its attempt, as in ACK. */
const fence = {
  job_id: id,
  worker_id: { ...id, type: ['string', 'null'] },
  attempt: { type: ['integer', 'null'], minimum: 1 },
  generation: { type: ['integer', 'null'], minimum: 0 },
} as const

export const PROGRESS_SCHEMA = {
  title: 'ProgressRequest',
  type: 'object',
  required: ['job_id'],
  properties: {
    ...fence,
    progress: { type: ['number', 'null'] },
    percentage: { type: ['number', 'null'] },
    message: { type: ['string', 'null'] },
    data: { type: ['object', 'null'] },
    checkpoint: {},
  },
} as const

export const CHECKPOINT_SCHEMA = {
  title: 'CheckpointRequest',
  type: 'object',
  required: ['job_id', 'state'],
  properties: { ...fence, state: {} },
} as const

interface Fence {
  job_id: string
  worker_id?: string | null
  attempt?: number | null
  generation?: number | null
}

export interface ProgressRequest extends Fence {
  progress?: number | null
  percentage?: number | null
  message?: string | null
  data?: object | null
  checkpoint?: unknown
}

export interface CheckpointRequest extends Fence {
  state: unknown
}

/** By control message the attempt and its worker must be named: nobody gets an answer who could correct them. */
const NATIVE = ['worker_id', 'attempt'] as const
type Native = Record<'worker_id', string> & Record<'attempt', number>

export const parseNativeProgress = parser<ProgressRequest & Native>(native(PROGRESS_SCHEMA))
export const parseNativeCheckpoint = parser<CheckpointRequest & Native>(native(CHECKPOINT_SCHEMA))

function native<S extends { required: readonly string[]; properties: object }>(schema: S) {
  const properties = {
    ...schema.properties,
    worker_id: id,
    attempt: { type: 'integer', minimum: 1, maximum: MAX_INT32 },
  }
  return { ...schema, required: [...schema.required, ...NATIVE], properties }
}

export const parseProgress = workersParser<ProgressRequest>(PROGRESS_SCHEMA)
export const parseCheckpoint = workersParser<CheckpointRequest>(CHECKPOINT_SCHEMA)
