import { OJSWorker } from 'ojs-rabbitmq/sdk'
import { registerHandlers } from './handlers.ts'

const worker = new OJSWorker({
  url: process.env['OJS_URL'] ?? 'http://127.0.0.1:8080',
  queues: ['email'],
  concurrency: 5,
})
registerHandlers(worker)
await worker.start() // SIGTERM or Ctrl-C: finishes running jobs, gives the rest back
