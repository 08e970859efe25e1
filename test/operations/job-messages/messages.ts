import { withChannel } from '../harness.ts'

/** Publishes this body as a native producer would, and waits for the confirm; by default to the job queue. */
export async function publishJobMessage(
  amqpUrl: string,
  queue: string,
  body: { id: string; [member: string]: unknown },
  over: { exchange?: string; attempt?: number; headers?: object } = {},
): Promise<void> {
  const { exchange = 'ojs.exchange.direct', attempt = 1, headers } = over
  await withChannel(amqpUrl, async (channel) => {
    channel.publish(exchange, queue, Buffer.from(JSON.stringify(body)), {
      messageId: body.id,
      persistent: true,
      headers: { 'x-ojs-queue': queue, 'x-ojs-attempt': attempt, ...headers },
    })
    await channel.waitForConfirms()
  })
}
