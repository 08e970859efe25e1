/** The public entry `ojs-rabbitmq/sdk`. Runs in Node.js and in browsers alike. */
export {
  OJSAuthenticationError,
  OJSBackendError,
  OJSConflictError,
  OJSDuplicateError,
  OJSError,
  type OJSErrorInit,
  OJSNotFoundError,
  OJSPermissionError,
  OJSQueuePausedError,
  OJSRateLimitError,
  OJSTransportError,
  type OJSTransportErrorInit,
  OJSUnsupportedError,
  OJSValidationError,
  type TransportFailure,
} from './errors.ts'
export { type Fetch, HttpTransport, type HttpTransportOptions } from './http-transport.ts'
export type { Job, JobState } from './job.ts'
export { type Middleware, MiddlewareChain, type Next } from './middleware.ts'
export type { RetryOptions } from './retry.ts'
export type {
  JobError,
  JobSource,
  Lease,
  Settlement,
  SourceOptions,
  SourceSink,
  WorkerState,
} from './source.ts'
export type { Transport, TransportRequest, TransportResponse } from './transport.ts'
