/** Events as they happen, over server-sent events; comes again by itself where it was (OJS realtime). */
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import { onAbort } from '../async/on-abort.ts'
import { isRecord, requireKnown } from '../async/options.ts'
import { Pause } from '../async/sleep.ts'
import { OJSError, OJSTransportError, OJSUnsupportedError } from '../transport/errors.ts'
import { query, segment } from '../transport/request.ts'
import { backoffMs } from '../transport/retry.ts'
import type { Transport, TransportStream } from '../transport/transport.ts'

export interface EventsOptions {
  /** Only events of these queues. */
  queue?: string | readonly string[] | undefined
  /** Only the changes of this job, until it ends. Not together with `queue`. */
  jobId?: string | undefined
  /** Only these types, or beginnings such as `job.*`. */
  types?: readonly string[] | undefined
  /** Goes on behind this event; default: with what happens from now on. */
  lastEventId?: string | undefined
  /** Ends the iteration. */
  signal?: AbortSignal | undefined
  /** Called whenever the stream has been opened, also again. */
  onOpen?: (() => void) | undefined
  /**
   * Called when the stream was lost or cannot be opened now, before the next try. What it throws ends the
   * iteration.
   */
  onLost?: ((reason: OJSTransportError | OJSError) => void) | undefined
}

/** An event of the server. */
export interface OJSEvent {
  /** Null: the server gave none, and nobody can go on behind this event. */
  id: string | null
  /** E.g. `job.completed`; `system.gap` and `system.events_dropped` say that events are missing. */
  type: string
  data: Record<string, unknown>
}

const OPTIONS: Readonly<Record<keyof EventsOptions, true>> = {
  ...{ queue: true, jobId: true, types: true, lastEventId: true, signal: true },
  ...{ onOpen: true, onLost: true },
}
/** A server sends something every 15 s at least (OJS realtime). */
const SILENCE_MS = 45_000
const FIRST_WAIT_MS = 500
const LONGEST_WAIT_MS = 15_000
const ENDED: ReadonlySet<unknown> = new Set(['completed', 'cancelled', 'discarded'])

/**
 * Ends when `signal` fires, and, with `jobId`, after the job's last event. A lost connection is opened again, for
 * ever. Throws `OJSError` if the server refuses it, `OJSUnsupportedError` if the transport has no streams.
 */
export async function* eventsOf(
  transport: Transport,
  options: EventsOptions = {},
): AsyncGenerator<OJSEvent, void, undefined> {
  const path = pathOf(options)
  const { signal, onLost } = options
  let { lastEventId } = options
  for (let failures = 0; !signal?.aborted; failures += 1) {
    let reason: OJSTransportError | OJSError
    try {
      for await (const event of connection(transport, path, { ...options, lastEventId })) {
        lastEventId = event.id ?? lastEventId
        failures = 0
        if (event.type !== 'server.shutdown') yield event
        if (isLast(options, event)) return
      }
      return
    } catch (error) {
      if (signal?.aborted) return
      if (!isPassing(error)) throw error
      reason = error
    }
    onLost?.(reason)
    await pause(backoffMs(reason, failures, FIRST_WAIT_MS, LONGEST_WAIT_MS), signal)
  }
}

function pathOf(options: EventsOptions): string {
  requireKnown(options, OPTIONS, 'events')
  const { queue, jobId, types } = options
  const parameters = { types: types?.join(','), queue: queue?.toString() }
  if (jobId === undefined) return `/events/stream${query(parameters)}`
  if (queue !== undefined) throw new TypeError('Events are of a queue or of a job, not of both.')
  return `/jobs/${segment(jobId, 'The id of a job')}/events${query(parameters)}`
}

/** Of a single job the server sends nothing after its end. */
function isLast({ jobId }: EventsOptions, { type, data }: OJSEvent): boolean {
  return jobId !== undefined && type === 'job.state_changed' && ENDED.has(data['to'])
}

/** The connection was lost or there is none, or the server cannot serve it at this moment. */
function isPassing(error: unknown): error is OJSTransportError | OJSError {
  if (error instanceof OJSTransportError) return true
  return error instanceof OJSError && error.retryable && !(error instanceof OJSUnsupportedError)
}

/** One connection. Ends only if the server says that nothing more comes (204); throws when it is lost. */
async function* connection(
  transport: Transport,
  path: string,
  { lastEventId, signal, onOpen }: EventsOptions,
): AsyncGenerator<OJSEvent, void, undefined> {
  const silence = new AbortController()
  const unsubscribe = signal && onAbort(signal, () => silence.abort())
  let isSilent = false
  const watch = () =>
    setTimeout(() => {
      isSilent = true
      silence.abort()
    }, SILENCE_MS)
  let timer = watch()
  try {
    const { status, text } = await opened(transport, path, lastEventId, silence.signal)
    if (status === 204) return
    onOpen?.()
    const events: OJSEvent[] = []
    const parser = createParser({ onEvent: (message) => events.push(eventIn(message)) })
    for await (const part of text) {
      clearTimeout(timer)
      parser.feed(part)
      // Nobody waits for the server while the program is busy with an event.
      yield* events.splice(0)
      timer = watch()
    }
    throw new OJSTransportError('The stream of events has ended.', { kind: 'network' })
  } catch (error) {
    if (!isSilent) throw error
    const text = `The server sent nothing for ${SILENCE_MS / 1_000} s.`
    throw new OJSTransportError(text, { kind: 'timeout', cause: error })
  } finally {
    clearTimeout(timer)
    unsubscribe?.()
    silence.abort()
  }
}

async function opened(
  transport: Transport,
  path: string,
  lastEventId: string | undefined,
  signal: AbortSignal,
): Promise<TransportStream> {
  if (transport.stream === undefined) {
    throw new OJSUnsupportedError({
      code: 'unsupported',
      message: 'This transport has no streams, and so no events.',
      status: 422,
      retryable: false,
    })
  }
  const headers = lastEventId === undefined ? {} : { 'last-event-id': lastEventId }
  return await transport.stream({ method: 'GET', path, headers, signal })
}

function eventIn({ id, event, data }: EventSourceMessage): OJSEvent {
  return { id: id ?? null, type: event ?? 'message', data: objectOf(data) }
}

function objectOf(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    return isRecord(value) ? value : { value }
  } catch {
    return { value: text }
  }
}

async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  const sleep = new Pause()
  const unsubscribe = signal && onAbort(signal, () => sleep.wake())
  if (!signal?.aborted) await sleep.sleep(ms)
  unsubscribe?.()
}
