// A native worker in a process of its own, for tests that kill it. Prints a line for each job.
import { NativeWorker } from '../../../dist/worker/index.js'

const [url, queue, what] = process.argv.slice(2)
const worker = new NativeWorker({
  url,
  queues: [queue],
  // Longer than any gateway takes: without an answer, the worker would run a job without permission.
  answerTimeoutMs: 10_000,
  logger: false,
  retryQueueSettleMs: 0,
})
worker.register('test.job', async ({ job, attempt }) => {
  process.stdout.write(`${JSON.stringify({ id: job.id, attempt })}\n`)
  // `poison`: the handler kills its process. Otherwise it never ends.
  if (what === 'poison') process.kill(process.pid, 'SIGKILL')
  await new Promise(() => {})
})
await worker.start()
process.stdout.write('{"started":true}\n')
