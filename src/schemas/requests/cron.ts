/** The schema of a cron entry, without its job. */
import { OVERLAP_NAMES } from '../../job/cron/entry.ts'
import { storable } from './shared-members.ts'

const text = { type: ['string', 'null'] } as const

/** The members of the entry itself; its template is checked like the body of a PUSH. */
export const CRON_SCHEMA = {
  title: 'CronRequest',
  type: 'object',
  required: ['name'],
  properties: {
    name: { type: 'string', maxLength: 255, pattern: '^[a-z0-9][a-z0-9\\-\\.]*$' },
    cron: text,
    expression: text,
    timezone: text,
    overlap_policy: { enum: [...OVERLAP_NAMES, null] },
    enabled: { type: ['boolean', 'null'] },
    description: { ...text, maxLength: 4096, pattern: storable },
    job_template: { type: ['object', 'null'] },
  },
} as const

/** What a manual run may change. */
export const TRIGGER_SCHEMA = {
  type: 'object',
  additionalProperties: false,
  properties: { args: { type: ['array', 'null'] }, meta: { type: ['object', 'null'] } },
} as const
