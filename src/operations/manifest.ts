/** The conformance manifest: version, levels and capabilities of this gateway. */
import type { PriorityOrder } from '../broker/broker.ts'
import type { KnownReplication } from '../ledger/known.ts'

/** The facts about this process that the manifest shows. */
export interface ManifestFacts {
  version: string
  baseUrl: string
  queueType: 'classic' | 'quorum'
  maxBodyBytes: number
  disasterRecovery(): DisasterRecovery
  /** The priority order of the broker's queues; null until a connection has told it. */
  priorityOrder(): PriorityOrder | null
  access: {
    needsKeys: boolean
    needsClientCertificate: boolean
    rateLimit: { limit: number; windowMs: number } | undefined
  }
}

const CAPABILITIES = {
  batch_enqueue: true,
  // Clients read either name.
  cron: true,
  cron_jobs: true,
  dead_letter: true,
  delayed_jobs: true,
  job_ttl: true,
  priority_queues: true,
  rate_limiting: true,
  concurrency_keys: true,
  schema_validation: true,
  unique_jobs: true,
  workflows: true,
  pause_resume: true,
}

/**
 * The conformance manifest (seed 001 §21.2). A capability is true when all of its endpoints work.
 * `specversion` and `extension_details` are additions for readers of other OJS documents (OJS conformance).
 */
export function manifest(facts: ManifestFacts): object {
  const schemes = accessSchemes(facts.access)
  const { rateLimit } = facts.access
  return {
    ojs_version: '1.0',
    specversion: '1.0',
    implementation: { name: 'ojs-rabbitmq', version: facts.version, language: 'typescript' },
    conformance_level: 4,
    conformance_tier: 'runtime',
    protocols: ['http', 'amqp'],
    backend: 'rabbitmq',
    capabilities: CAPABILITIES,
    unique_job_strength: 'strong',
    extensions: [
      ...Object.keys(WORKER_EXTENSIONS),
      'event_polling',
      'worker_directives',
      ...Object.keys(schemes),
      'idempotency_key',
      'gzip_bodies',
      ...Object.keys(JOB_EXTENSIONS),
      ...Object.keys(OJS_EXTENSIONS),
    ],
    extension_details: {
      ...WORKER_EXTENSIONS,
      event_polling: 'GET /ojs/v1/events lists the newest 10000 events of this process.',
      worker_directives: 'POST /ojs/v1/admin/workers/:id/quiet and /terminate (* means all).',
      ...schemes,
      ...(rateLimit !== undefined && { request_limit: rateLimitText(rateLimit) }),
      idempotency_key: 'PUSH and PUSH batch honor an Idempotency-Key header for 24 hours.',
      disaster_recovery: facts.disasterRecovery(),
      gzip_bodies: 'A body may have Content-Encoding: gzip. Limits count the bytes that are in it.',
      ...JOB_EXTENSIONS,
      ...OJS_EXTENSIONS,
      queue_type: facts.queueType,
      priority: prioritiesOf(facts),
      pause_resume:
        'Pauses are broadcast to native workers; a consumer that ignores them is not stopped.',
      job_rate_limit:
        'options.rate_limit.max_per_second limits FETCH per queue; it does not limit native workers.',
      max_body_bytes: facts.maxBodyBytes,
    },
    endpoints: {
      base_url: `${facts.baseUrl}/ojs/v1`,
      manifest: '/ojs/manifest',
      health: '/ojs/v1/health',
      openapi: '/ojs/v1/openapi.json',
    },
  }
}

/** What can be read of a running or ended job. */
const JOB_EXTENSIONS = {
  progress: 'PUT and GET /ojs/v1/jobs/:id/progress, by control message too; counts as a heartbeat.',
  checkpoints:
    'PUT, GET and DELETE /ojs/v1/jobs/:id/checkpoint, by control message too; at most 1 MiB. A dead letter keeps its own.',
  concurrency_keys:
    'options.concurrency {key, limit}: how many jobs of a key are active at once, over HTTP and for native workers that claim; other native consumers are counted and not limited.',
  results:
    'GET /ojs/v1/jobs/:id/result, with wait=true for as long as timeout says (at most 60 s).',
}

/** OJS's documents beyond the seeds whose every MUST is met, by the names of the documents. */
const OJS_EXTENSIONS = {
  'admin-api': 'ADM-001 to ADM-008, below /ojs/v1/admin.',
  'bulk-operations': 'BLK-001 to BLK-005: /ojs/v1/jobs/bulk, with a result for each job.',
  'dead-letter':
    'DLQ-001 to DLQ-006; a dead letter stays in its queue, discarded, and keeps the newest 50 errors.',
  'durable-execution':
    'DUR-001 to DUR-008: checkpoints; a dead letter keeps its own, unlike DUR-005, for its retry.',
  realtime: 'Server-sent events with Last-Event-ID; at best effort, of this process.',
}

/** What workers may use. */
const WORKER_EXTENSIONS = {
  fetch_wait_ms: 'FETCH accepts wait_ms (at most 30000): how long it waits for a first job.',
  fenced_ack: 'ACK and NACK accept worker_id and attempt, which must match the lease if present.',
  nack_requeue: 'NACK accepts requeue: true: the job is available at once; no attempt is counted.',
  batch_settle:
    'POST /ojs/v1/workers/settle takes up to 1000 ACKs and NACKs, and answers each of them.',
}

/**
 * As OJS's document on disaster recovery counts (its extension is not claimed): 1 is one node's disk, where
 * the ledger is, whatever RabbitMQ replicates; 2 is a replicated ledger.
 */
export interface DisasterRecovery {
  durability_level: 1 | 2
  ha_mode: 'none' | 'active-passive'
}

/** How it is now: `active-passive` while another gateway waits to take over. */
export function disasterRecovery({ isReplicated, standbys }: KnownReplication): DisasterRecovery {
  return {
    durability_level: isReplicated() ? 2 : 1,
    ha_mode: standbys() > 0 ? 'active-passive' : 'none',
  }
}

/** The required authentication, which seed 001 §5.2 wants named under `extensions`. */
function accessSchemes({ needsKeys, needsClientCertificate }: ManifestFacts['access']) {
  return {
    ...(needsKeys && {
      bearer_api_keys:
        'Authorization: Bearer <key>; roles producer, worker, reader, operator, admin. Manifest, OpenAPI document and health are open to all.',
    }),
    ...(needsClientCertificate && {
      mutual_tls: 'TLS with a client certificate of an issuer that the server trusts.',
    }),
  }
}

function rateLimitText({ limit, windowMs }: { limit: number; windowMs: number }): string {
  const window = `${windowMs / 1_000} s`
  return (
    `${limit} requests per API key, or per address without one, in a fixed window of ${window}; ` +
    'health is not limited.'
  )
}

const BUFFERED =
  'FETCH sorts the jobs that the gateway buffers (32 per consumer) by priority (−100…100).'

/** Describes how priorities −100…100 are ordered: by RabbitMQ in the queue, by the gateway in its buffers. */
function prioritiesOf({ queueType, priorityOrder }: ManifestFacts): string {
  const order = priorityOrder()
  const said =
    order === null ? 'the order is unknown while there is no connection' : levelsOf(order)
  return `In ${queueType} queues of this RabbitMQ: ${said}. ${BUFFERED}`
}

function levelsOf({ levels, isStrict }: PriorityOrder): string {
  if (levels === 1) return 'by arrival, regardless of priority'
  if (!isStrict) return `${levels} levels (above 4, and all others), served two to one`
  return `${levels} levels (0 to 9; lower and higher ones count as 0 and 9), strictly`
}
