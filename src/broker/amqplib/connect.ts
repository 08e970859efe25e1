/** Opens a connection of amqplib's, within a time limit, with TCP keep-alive and our heartbeat. */
import { Socket } from 'node:net'
import { Writable } from 'node:stream'
import { type ChannelModel, connect, credentials } from 'amqplib'
import { gatherWrites, writePromptly } from './batched-writes.ts'
import { tellEarlyErrorsLate } from './early-errors.ts'
import { encodePublishes } from './publish-encoder.ts'
import { readStrangeHeaders } from './undecodable-headers.ts'

const CONNECT_TIMEOUT_MS = 10_000
/** amqplib's own limit counts inactivity only: a peer in the middle of a frame may send on for ever. */
const OPEN_MS = 30_000
/** Otherwise Linux waits two hours before the first probe. */
const KEEP_ALIVE_DELAY_MS = 30_000

export interface PeerOptions {
  connectionName: string
  heartbeatS: number
}

/**
 * Opens a connection of amqplib's within `ms`. Aborting `socket` ends the attempt, and later the connection;
 * Node.js does not document that for TLS.
 */
export async function openModel(
  url: URL,
  { connectionName, heartbeatS }: PeerOptions,
  socket: AbortController,
  ms = OPEN_MS,
): Promise<ChannelModel> {
  tellEarlyErrorsLate()
  const { signal } = socket
  const giveUp = () => socket.abort(new Error('connection not open in time'))
  const tooLong = setTimeout(giveUp, ms)
  const options = {
    timeout: CONNECT_TIMEOUT_MS,
    // Otherwise Nagle's algorithm delays small frames: 44 ms instead of 0.3 ms to a first delivery.
    noDelay: true,
    keepAlive: true,
    keepAliveDelay: KEEP_ALIVE_DELAY_MS,
    signal,
    clientProperties: { connection_name: connectionName },
    ...credentialsOf(url),
  }
  try {
    const model = await connect(withHeartbeat(url, heartbeatS), options)
    // The caller may find the connection ended and register no listener; an unheard `error` ends the process.
    model.on('error', () => {})
    return model
  } catch (error) {
    // amqplib does not pass the signal's reason on.
    throw signal.reason ?? error
  } finally {
    clearTimeout(tooLong)
  }
}

/** Decodes user and password here, because amqplib uses the old `unescape`, which breaks `user%C3%A4`. */
function credentialsOf({ username, password }: URL): object {
  if (username === '' && password === '') return {}
  const decoded = [decodeURIComponent(username), decodeURIComponent(password)] as const
  return { credentials: credentials.plain(...decoded) }
}

/** Sets the heartbeat of a URL that has none to `seconds`. */
function withHeartbeat(url: URL, seconds: number): string {
  const copy = new URL(url)
  if (!copy.searchParams.has('heartbeat')) copy.searchParams.set('heartbeat', `${seconds}`)
  return copy.href
}

/** The socket of the connection. Null: amqplib has changed and no longer exposes it. */
export function streamOf(model: ChannelModel): Writable | null {
  // Not in amqplib's types.
  const { stream } = model.connection as { stream?: unknown }
  return stream instanceof Writable ? stream : null
}

/** How many bytes came over the connection; always 0 if amqplib has changed. */
export function bytesReadOf(model: ChannelModel): number {
  const stream = streamOf(model)
  return stream instanceof Socket ? stream.bytesRead : 0
}

/** Makes writes and publishes cheaper, and decodes headers for which amqplib would end the connection. */
export function tune(model: ChannelModel, stream: Writable | null, isPrompt: boolean): void {
  if (stream) {
    gatherWrites(stream)
    if (isPrompt) writePromptly(model.connection)
  }
  encodePublishes(model.connection)
  readStrangeHeaders(model.connection)
}
