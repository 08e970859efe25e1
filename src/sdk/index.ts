/** The public entry `ojs-rabbitmq/sdk`. Runs in Node.js and in browsers alike. */

export type { Bulk, BulkOperation, BulkOptions, BulkProgress } from './client/bulk.ts'
export {
  type EnqueueMiddleware,
  OJSClient,
  OJSClient as Client,
  type OJSClientOptions,
} from './client/client.ts'
export type { EventsOptions, OJSEvent } from './client/events.ts'
export type { JobFilter } from './client/job-filter.ts'
export type {
  EnqueueRequest,
  JobOptions,
  JobSpec,
  RetryPolicy,
  UniquePolicy,
  WireJob,
  WireJobOptions,
} from './client/job-options.ts'
export type {
  FoundJobs,
  HistoryRecord,
  JobOverride,
  JobPlace,
  JobQuery,
  Jobs,
} from './client/jobs.ts'
export type {
  Cron,
  CronSpec,
  DeadLetters,
  PausedQueue,
  Queues,
  ResumedQueue,
  SchemaSpec,
  Schemas,
  Workers,
  WorkflowPage,
  Workflows,
} from './client/resources.ts'
export type {
  CronJob,
  Health,
  HealthWarning,
  JobPage,
  JobResult,
  Manifest,
  OverlapPolicy,
  PageOptions,
  Pagination,
  Queue,
  QueueCounts,
  QueueStats,
  QueueStatus,
  Schema,
  WorkerInfo,
  Workflow,
  WorkflowError,
  WorkflowState,
  WorkflowStepState,
} from './client/responses.ts'
export {
  type BatchCallbacks,
  type BatchDefinition,
  batch,
  type ChainDefinition,
  chain,
  type GraphDefinition,
  type GraphStep,
  type GroupDefinition,
  group,
  type WorkflowDefinition,
  type WorkflowStep,
} from './client/workflow.ts'
export type {
  ConcurrencyPolicy,
  Job,
  JobState,
  RateLimit,
  WireRetryPolicy,
  WireUniquePolicy,
} from './job.ts'
export { type Middleware, MiddlewareChain, type Next } from './middleware.ts'
export { InMemoryTransport } from './testing/in-memory-transport.ts'
export {
  type InlineJob,
  type InlineOptions,
  type InlineOutcome,
  type InlineWorker,
  runInline,
} from './testing/run-inline.ts'
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
} from './transport/errors.ts'
export { type Fetch, HttpTransport, type HttpTransportOptions } from './transport/http-transport.ts'
export type { CallOptions } from './transport/request.ts'
export type { RetryOptions } from './transport/retry.ts'
export type {
  Transport,
  TransportRequest,
  TransportResponse,
  TransportStream,
} from './transport/transport.ts'
export type {
  ExecutionChain,
  ExecutionMiddleware,
  Handler,
  JobContext,
} from './worker/execution.ts'
export { type AbortCause, JobAbortError } from './worker/job-abort-error.ts'
export type {
  JobError,
  JobSource,
  Lease,
  Settlement,
  SourceOptions,
  SourceSink,
  WorkerState,
} from './worker/source.ts'
export {
  OJSWorker,
  OJSWorker as Worker,
  type OJSWorkerState,
  type StopResult,
} from './worker/worker.ts'
export type { OJSWorkerOptions, WorkerLogger } from './worker/worker-options.ts'
