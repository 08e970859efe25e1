import { NativeWorker } from 'ojs-rabbitmq/worker'
import { registerHandlers } from './handlers.ts'

const worker = new NativeWorker({
  url: process.env['AMQP_URL'] ?? 'amqp://127.0.0.1:5672/%2Fojs',
  queues: ['email'],
  concurrency: 5,
})
registerHandlers(worker)
await worker.start() // SIGTERM or Ctrl-C: finishes running jobs, gives the rest back
