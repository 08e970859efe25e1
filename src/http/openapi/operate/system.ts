/** Of the manifest, health, probes, metrics, and this document. */
import type { Description } from '../description.ts'
import {
  BOOLEAN,
  entity,
  INTEGER,
  list,
  MAP,
  object,
  oneOf,
  type Schema,
  TEXT,
  told,
} from '../schema.ts'

export const MANIFEST: Description = {
  id: 'getManifest',
  tag: 'system',
  summary: 'Read what this server can do',
  answers: {
    200: entity('Manifest', {
      ojs_version: TEXT,
      specversion: TEXT,
      implementation: object({ name: TEXT, version: TEXT, language: TEXT }),
      conformance_level: INTEGER,
      conformance_tier: TEXT,
      protocols: list(TEXT),
      backend: TEXT,
      capabilities: { type: 'object', additionalProperties: BOOLEAN },
      unique_job_strength: TEXT,
      extensions: list(TEXT),
      extension_details: MAP,
      endpoints: object({ base_url: TEXT, manifest: TEXT, health: TEXT, openapi: TEXT }),
    }),
  },
}

const REPORT = entity('Health', {
  status: oneOf(['ok', 'degraded', 'standby']),
  version: TEXT,
  uptime_seconds: INTEGER,
  backend: object({
    type: TEXT,
    status: oneOf(['connected', 'disconnected', 'blocked', 'refused']),
    'latency_ms?': INTEGER,
    'error?': TEXT,
  }),
  ledger: object({
    type: oneOf(['sqlite', 'postgres']),
    status: oneOf(['writable', 'failing']),
    'standbys?': told('With PostgreSQL: how many gateways wait to take over.', INTEGER),
    'error?': TEXT,
  }),
  'active_url?': told('Of a standby, for operators: where the active gateway is.', TEXT),
  draining: BOOLEAN,
  maintenance: BOOLEAN,
  'warnings?': told(
    'Only for operators.',
    list({ ...object({ code: TEXT, message: TEXT }), additionalProperties: true }),
  ),
})

export const HEALTH: Description = {
  id: 'getHealth',
  tag: 'system',
  summary: 'Read whether jobs can be pushed, and what to look at',
  answers: {
    200: REPORT,
    503: told('PUSH would fail, the gateway stops, or it stands by.', REPORT),
  },
}

const PROBE = object({ status: oneOf(['ok', 'degraded', 'draining', 'standby']) })

export const LIVENESS: Description = {
  id: 'isAlive',
  tag: 'system',
  summary: 'Ask whether the process answers',
  answers: { 200: PROBE },
}

export const READINESS: Description = {
  id: 'isReady',
  tag: 'system',
  summary: 'Ask whether jobs can be pushed',
  answers: { 200: PROBE, 503: told('PUSH would fail, the gateway stops, or it stands by.', PROBE) },
}

const PROMETHEUS: Schema = { type: 'string', contentMediaType: 'text/plain' }

export const METRICS: Description = {
  id: 'getMetrics',
  tag: 'system',
  summary: 'Read the metrics, for Prometheus',
  answers: { 200: told('A gateway that stands by has none of jobs and queues.', PROMETHEUS) },
}

export const OPENAPI: Description = {
  id: 'getOpenApi',
  tag: 'system',
  summary: 'Read this document',
  answers: {
    200: { type: 'object', additionalProperties: true, contentMediaType: 'application/json' },
    304: null,
  },
}

export const RESUME_RETENTION: Description = {
  id: 'resumeRetention',
  tag: 'admin',
  summary: 'Let retention go on that is held because of the clock',
  answers: { 200: object({ resumed: told('False: nothing was held.', BOOLEAN) }) },
}
