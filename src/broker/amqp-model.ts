import { Writable } from 'node:stream'
import { type ChannelModel, connect } from 'amqplib'
import { credentialsOf, withHeartbeat } from './amqp-url.ts'
import { tellEarlyErrorsLate } from './early-errors.ts'
import { gatherWrites, writePromptly } from './gathered-writes.ts'
import { encodePublishes } from './publish-frames.ts'
import { readStrangeHeaders } from './strange-headers.ts'

const CONNECT_TIMEOUT_MS = 10_000
/** Linux waits two hours with the first probe otherwise. */
const KEEP_ALIVE_DELAY_MS = 30_000

export interface PeerOptions {
  connectionName: string
  heartbeatS: number
}

/** amqplib's connection. `signal` destroys its socket, but not that of TLS. */
export async function openModel(
  url: URL,
  given: PeerOptions & { signal: AbortSignal },
): Promise<ChannelModel> {
  tellEarlyErrorsLate()
  const { connectionName, heartbeatS, signal } = given
  const socket = {
    timeout: CONNECT_TIMEOUT_MS,
    // Without it Nagle holds back small frames: 44 ms instead of 0.3 ms to a first delivery.
    noDelay: true,
    keepAlive: true,
    keepAliveDelay: KEEP_ALIVE_DELAY_MS,
    signal,
    clientProperties: { connection_name: connectionName },
    ...credentialsOf(url),
  }
  const model = await connect(withHeartbeat(url, heartbeatS), socket)
  // Also where its opener finds it ended, and does not listen any more.
  model.on('error', () => {})
  return model
}

/** Null: amqplib has changed, and does not show it any more. */
export function streamOf(model: ChannelModel): Writable | null {
  // Not in amqplib's types.
  const { stream } = model.connection as { stream?: unknown }
  return stream instanceof Writable ? stream : null
}

/** Quicker writes, cheaper publishes, and headers that amqplib would end the connection for. */
export function tune(model: ChannelModel, stream: Writable | null, isPrompt: boolean): void {
  if (stream) {
    gatherWrites(stream)
    if (isPrompt) writePromptly(model.connection)
  }
  encodePublishes(model.connection)
  readStrangeHeaders(model.connection)
}
