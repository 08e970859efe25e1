import { expect, test } from 'vitest'
import { eventually } from '../../support/gateway/in-process.ts'
import { benchOfFile, gate, publishJob, until } from '../harness.ts'

const { on } = benchOfFile()

test('a native worker whose handler hangs leaves waiting jobs to others, and runs jobs again when it ends', async () => {
  const end = gate()
  const ran = new Set<string>()
  const { queue, desk, jobQueue } = await on.setUp(
    { 'test.job': ({ job }) => (ran.size === 0 ? end.opened : ran.add(job.id)) },
    { concurrency: 1 },
  )
  const overrun = { timeout_ms: 50, max_attempts: 1 }
  await until(desk, await publishJob(on.admin, queue, { envelope: overrun }))
  const other = await on.start({ queues: [queue] }, { 'test.job': ({ job }) => ran.add(job.id) })
  const publishFour = () => Promise.all([1, 2, 3, 4].map(() => publishJob(on.admin, queue)))
  const ids = await publishFour()
  // RabbitMQ has delivered one of them to the first worker, which must give it back.
  await eventually(() => ids.every((id) => ran.has(id)))
  await other.stop()
  expect((await on.admin.channel.checkQueue(jobQueue)).consumerCount).toBe(0)
  const later = await publishFour()
  end.open()
  await eventually(() => later.every((id) => ran.has(id)))
})
