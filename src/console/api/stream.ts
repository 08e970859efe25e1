/** A stream of server-sent events, followed for as long as somebody wants it. */
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import { askWhoIsHere } from './queries.ts'

/** The gateway writes at least a comment every ten seconds. */
const SILENT_MS = 25_000
const AGAIN_MS = 3_000

export interface Follower {
  onEvent: (event: EventSourceMessage) => void
  onConnected: (isConnected: boolean) => void
}

/**
 * Opens the stream, and again whenever it is lost. Returns what ends it. The browser's own `EventSource` shows no comments,
 * so that a gateway that hangs would look alive, and it never comes back after an answer such as 401.
 */
export function follow(url: URL, { onEvent, onConnected }: Follower): () => void {
  let connection = new AbortController()
  let next: ReturnType<typeof setTimeout> | undefined
  let lastId = ''
  const parser = () =>
    createParser({
      onEvent: (event) => {
        lastId = event.id ?? lastId
        onEvent(event)
      },
    })
  const open = async () => {
    connection = new AbortController()
    const { signal } = connection
    try {
      await read(url, lastId, connection, parser(), () => onConnected(true))
    } catch {
      // It is opened again, whatever has ended it.
    }
    if (signal.reason === ENDED) return
    onConnected(false)
    next = setTimeout(() => void open(), AGAIN_MS)
  }
  void open()
  return () => {
    clearTimeout(next)
    connection.abort(ENDED)
  }
}

const ENDED = 'ended'

async function read(
  url: URL,
  lastId: string,
  connection: AbortController,
  parser: ReturnType<typeof createParser>,
  onOpen: () => void,
): Promise<void> {
  const silence = new Silence(() => connection.abort())
  try {
    const response = await fetch(url, {
      headers: lastId === '' ? {} : { 'Last-Event-ID': lastId },
      credentials: 'same-origin',
      cache: 'no-store',
      signal: connection.signal,
    })
    if (!response.ok || response.body === null) return await askWhoIsHere()
    onOpen()
    const texts = response.body.pipeThrough(new TextDecoderStream()).getReader()
    for (;;) {
      silence.begin()
      const { done, value } = await texts.read()
      if (done) return
      parser.feed(value)
    }
  } finally {
    silence.end()
  }
}

/** Calls when nothing has come for too long. */
class Silence {
  readonly #onTooLong: () => void
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(onTooLong: () => void) {
    this.#onTooLong = onTooLong
    this.begin()
  }

  begin(): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(this.#onTooLong, SILENT_MS)
  }

  end(): void {
    clearTimeout(this.#timer)
  }
}
