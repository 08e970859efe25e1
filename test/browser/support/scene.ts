/** Jobs in every state, failures, workers, cron, workflows: what a gateway looks like in the afternoon. */
import type { TestGateway } from '../../support/gateway/in-process.ts'
import { forAll } from '../../support/time/late.ts'

export interface Scene {
  /** Ids of jobs. */
  waiting: string
  running: string
  failed: string
  hostile: string
  workflow: string
}

/** Texts that would do harm if they were anything but text. */
export const HOSTILE = {
  script: '<script>document.title = "taken"</script><img src=x onerror="document.title = 1">',
  direction: 'safe\u202Efdp.exe',
  long: 'x'.repeat(1_000_000),
  emoji: '🐇🎉',
}

/**
 * The hour of the recurring job `nightly`, in Berlin. About half a day ahead, whenever the tests run: a run within the
 * next hours would be on the pages of what comes soon.
 */
export const NIGHTLY_HOUR = (new Date().getUTCHours() + 12) % 24

/** Played before all tests of the file. */
export function sceneForAll(gateway: TestGateway): Scene {
  return forAll(
    () => playScene(gateway),
    () => undefined,
  )
}

export async function playScene(gateway: TestGateway): Promise<Scene> {
  const push = async (type: string, queue: string, more: object = {}) =>
    (await gateway.request('POST', '/ojs/v1/jobs', { type, args: [{ n: 1 }], queue, ...more })).body
      .job.id as string
  const args = [
    HOSTILE.script,
    HOSTILE.direction,
    HOSTILE.long,
    { [HOSTILE.emoji]: [1, null, true] },
  ]
  const hostile = await push('hostile.job', 'quarantine', { args, meta: { constructor: 'x' } })
  const failed = await push('email.send', 'mail', { meta: { tenant: 't7' }, tags: ['eu'] })
  await endMailJob(gateway)
  const running = await push('image.resize', 'images', { timeout_ms: 0 })
  await startAndReport(gateway)
  await push('report.make', 'default', { scheduled_at: '+PT30M' })
  await push('invoice.pdf', 'default', { meta: { tenant: 't7' } })
  const waiting = await push('email.digest', 'default', { tags: ['eu'] })
  await gateway.request('POST', '/ojs/v1/queues', { name: 'webhooks-outbound-priority-eu-west-1' })
  await recurring(gateway)
  await steering(gateway)
  const workflow = await gateway.request('POST', '/ojs/v1/workflows', ORDER)
  return { waiting, running, failed, hostile, workflow: workflow.body.workflow.id }
}

const ORDER = {
  name: 'order',
  steps: [
    { id: 'pay', type: 'order.pay', args: [], options: { queue: 'orders' } },
    { id: 'pack', type: 'order.pack', args: [], depends_on: ['pay'] },
    { id: 'mail', type: 'email.send', args: [], depends_on: ['pay'] },
    { id: 'ship', type: 'order.ship', args: [], depends_on: ['pack', 'mail'] },
  ],
}

/** A schema, and a queue that was paused, which the audit tells. */
async function steering(gateway: TestGateway): Promise<void> {
  const schema = { type: 'array', minItems: 1, items: { type: 'object' } }
  const email = { uri: 'urn:schema:email:1', type: 'email.send', version: 1, schema }
  await gateway.request('POST', '/ojs/v1/schemas', email)
  await gateway.request('POST', '/ojs/v1/admin/queues/images/pause', {})
  await gateway.request('POST', '/ojs/v1/admin/queues/images/resume', {})
}

async function recurring(gateway: TestGateway): Promise<void> {
  const nightly = { name: 'nightly', cron: `0 ${NIGHTLY_HOUR} * * *`, timezone: 'Europe/Berlin' }
  await gateway.request('POST', '/ojs/v1/cron', { ...nightly, type: 'report.make', args: [] })
}

/** The job fails for good, so that it is a dead letter. */
async function endMailJob(gateway: TestGateway): Promise<void> {
  const [job] = await gateway.fetch(['mail'], { worker_id: 'mailer-1', wait_ms: 30_000 })
  await gateway.request('POST', '/ojs/v1/workers/nack', {
    job_id: job.id,
    error: {
      code: 'smtp_error',
      type: 'SmtpRefused',
      message: '550 <b>mailbox</b> unavailable',
      retryable: false,
      backtrace: ['at send (mail.js:7)', 'at run (worker.js:3)'],
    },
  })
}

async function startAndReport(gateway: TestGateway): Promise<void> {
  const more = { worker_id: 'resizer-1', wait_ms: 30_000, visibility_timeout_ms: 600_000 }
  const [job] = await gateway.fetch(['images'], more)
  await gateway.request('POST', '/ojs/v1/workers/progress', {
    job_id: job.id,
    worker_id: 'resizer-1',
    progress: 0.4,
    message: '40 of 100',
  })
  await gateway.request('POST', '/ojs/v1/workers/heartbeat', {
    worker_id: 'resizer-1',
    hostname: 'ip-10-0-12-30.eu-west-1.compute.internal',
    pid: 4711,
    concurrency: 4,
    version: '1.2.3',
    queues: ['images'],
  })
}
