/** The public entry `ojs-rabbitmq/sdk`. Runs in Node.js and in browsers alike. */
export { type AbortCause, JobAbortError } from './abort.ts'
export type {
  CronJob,
  Health,
  HealthWarning,
  JobPage,
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
} from './answers.ts'
export {
  type EnqueueMiddleware,
  OJSClient,
  OJSClient as Client,
  type OJSClientOptions,
} from './client.ts'
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
export type { CallOptions } from './exchange.ts'
export type { ExecutionChain, ExecutionMiddleware, Handler, JobContext } from './execution.ts'
export { type Fetch, HttpTransport, type HttpTransportOptions } from './http-transport.ts'
export { InMemoryTransport } from './in-memory-transport.ts'
export {
  type InlineJob,
  type InlineOptions,
  type InlineOutcome,
  type InlineWorker,
  runInline,
} from './inline.ts'
export type { Job, JobState } from './job.ts'
export type {
  EnqueueRequest,
  JobOptions,
  JobSpec,
  RateLimit,
  RetryPolicy,
  UniquePolicy,
  WireJob,
  WireJobOptions,
  WireRetryPolicy,
  WireUniquePolicy,
} from './job-options.ts'
export { type Middleware, MiddlewareChain, type Next } from './middleware.ts'
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
} from './resources.ts'
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
export {
  OJSWorker,
  OJSWorker as Worker,
  type OJSWorkerState,
  type StopResult,
} from './worker.ts'
export type { OJSWorkerOptions, WorkerLogger } from './worker-options.ts'
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
} from './workflow.ts'
