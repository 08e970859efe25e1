/** The public entry `ojs-rabbitmq/sdk`. Runs in Node.js and in browsers alike. */
export type { Job, JobState } from './job.ts'
export { type Middleware, MiddlewareChain, type Next } from './middleware.ts'
export type {
  JobError,
  JobSource,
  Lease,
  Settlement,
  SourceOptions,
  SourceSink,
  WorkerState,
} from './source.ts'
