// A native worker in a process of its own, for tests that kill it. Prints a line for each job.
import { NativeWorker } from '../../dist/worker/index.js'

const [url, queue, what] = process.argv.slice(2)
const worker = new NativeWorker({
  url,
  queues: [queue],
  // A gateway that takes longer counts as none: the worker would run what it was not told to.
  answerTimeoutMs: 10_000,
  logger: false,
  rungSettleMs: 0,
})
worker.register('test.job', async ({ job, attempt }) => {
  process.stdout.write(`${JSON.stringify({ id: job.id, attempt })}\n`)
  // A handler that takes its process along, and one that never ends.
  if (what === 'poison') process.kill(process.pid, 'SIGKILL')
  await new Promise(() => {})
})
await worker.start()
process.stdout.write('{"started":true}\n')
