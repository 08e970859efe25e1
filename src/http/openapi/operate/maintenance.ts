/** Of `/admin/system`. */
import { MAINTENANCE_SCHEMA } from '../../../schemas/requests/admin.ts'
import type { Description } from '../description.ts'
import { ANY, BOOLEAN, entity, INSTANT, INTEGER, object, oneOf, TEXT, told } from '../schema.ts'

const MAINTENANCE = entity('Maintenance', {
  enabled: BOOLEAN,
  maintenance: told('The same as `enabled`.', BOOLEAN),
  'reason?': TEXT,
  'started_at?': INSTANT,
  'enabled_at?': told('The same as `started_at`.', INSTANT),
  'ends_at?': INSTANT,
  'estimated_end?': told('The same as `ends_at`.', INSTANT),
})

export const GET_MAINTENANCE: Description = {
  id: 'getMaintenance',
  tag: 'admin',
  summary: 'Read whether new jobs are refused',
  answers: { 200: MAINTENANCE },
}

export const SET_MAINTENANCE: Description = {
  id: 'setMaintenance',
  tag: 'admin',
  summary: 'Refuse new jobs, or accept them again',
  body: MAINTENANCE_SCHEMA,
  answers: { 200: MAINTENANCE },
}

export const GET_CONFIG: Description = {
  id: 'getConfig',
  tag: 'admin',
  summary: 'Read the settings in use',
  answers: {
    200: {
      type: 'object',
      additionalProperties: object({ value: ANY, source: oneOf(['default', 'env', 'file']) }),
      description: 'By the name of the variable in lower case, without `OJS_`.',
    },
  },
}

export const GET_LEDGER: Description = {
  id: 'getLedger',
  tag: 'admin',
  summary: 'Read how large the ledger is',
  answers: {
    200: entity('LedgerSize', {
      bytes: INTEGER,
      free_bytes: told('Of it free: rows that went have left it for others.', INTEGER),
      bytes_at_start: told('When this gateway started.', INTEGER),
      started_at: INSTANT,
      jobs: told('In all states.', INTEGER),
      dead_letters: INTEGER,
      queues: INTEGER,
      owed_messages: told('Without a confirm; counted up to 10,000.', INTEGER),
    }),
  },
}
