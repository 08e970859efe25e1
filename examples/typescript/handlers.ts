import { setTimeout as pause } from 'node:timers/promises'
import type { OJSWorker } from 'ojs-rabbitmq/sdk'

/** The same handlers serve every worker, whether its jobs come over HTTP or AMQP. */
export function registerHandlers(worker: OJSWorker): void {
  worker.register<[to: string]>('email.send', ({ args: [to], attempt }) => {
    if (to.endsWith('@flaky.example') && attempt === 1) throw new Error(`${to}: try again later`)
    return { delivered: to, attempt }
  })

  // Runs until it is done, cancelled or out of time: the signal ends the pause.
  worker.register<[seconds: number]>('report.build', async ({ args: [seconds], job, signal }) => {
    console.log(`started ${job.id}`)
    try {
      await pause(seconds * 1000, undefined, { signal })
    } catch (error) {
      console.log(`${signal.aborted ? signal.reason.reason : error} ${job.id}`)
      throw error
    }
    return { pages: seconds }
  })
}
