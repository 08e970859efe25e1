/** Families of error codes, and which may be retried if the answer does not say. */

/**
 * The families of error codes. The vocabulary is seed 001 §16.3 and the table of seed 004; the rest are codes
 * of other OJS servers (OJS errors). Codes are compared without regard to case.
 */
const FAMILIES = {
  validation: [
    'invalid_request',
    'invalid_payload',
    'schema_validation',
    'schema_validation_failed',
    'validation_error',
    'invalid_job_type',
    'invalid_queue',
    'invalid_args',
    'invalid_metadata',
    'invalid_retry_policy',
    'invalid_cron_expression',
    'invalid_workflow',
    'queue_name_too_long',
    'job_type_too_long',
    'job_type_not_allowed',
    'checksum_mismatch',
    'unsupported_compression',
    'payload_too_large',
    'metadata_too_large',
    'envelope_too_large',
    'result_too_large',
    'batch_size_exceeded',
  ],
  authentication: ['unauthenticated', 'token_expired', 'x_unauthenticated'],
  permission: ['permission_denied', 'tenant_access_denied', 'x_forbidden'],
  not_found: ['not_found', 'result_pruned'],
  conflict: [
    'invalid_state_transition',
    'conflict',
    'job_already_completed',
    'job_already_cancelled',
  ],
  duplicate: ['duplicate', 'duplicate_job'],
  queue_paused: ['queue_paused'],
  unsupported: ['unsupported', 'unsupported_feature'],
  rate_limited: ['rate_limited', 'queue_full'],
  backend: [
    'backend_error',
    'backend_unavailable',
    'backend_timeout',
    'internal_error',
    'replication_lag',
  ],
  /** Codes in a job's error, never in the answer to a request. */
  job: [
    'handler_error',
    'handler_timeout',
    'handler_panic',
    'non_retryable_error',
    'timeout',
    'cancelled',
    'job_cancelled',
  ],
} as const

export type ErrorFamily = keyof typeof FAMILIES

const FAMILY_OF_CODE = new Map<string, ErrorFamily>()
for (const family of Object.keys(FAMILIES) as ErrorFamily[]) {
  for (const code of FAMILIES[family]) FAMILY_OF_CODE.set(code, family)
}

/** The code's family; `undefined`: an unknown code, which must not be retried (seed 001 §16.3). */
export function familyOf(code: string): ErrorFamily | undefined {
  return FAMILY_OF_CODE.get(code.toLowerCase())
}

/** Whether to retry if the answer does not say so itself, as it always should. */
export function isRetryableByDefault(family: ErrorFamily): boolean {
  return family === 'queue_paused' || family === 'rate_limited' || family === 'backend'
}
