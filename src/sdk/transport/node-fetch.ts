/** A cheaper `fetch` over Node.js's own HTTP client; browsers use theirs. */
import type { Fetch } from './http-transport.ts'

interface AgentOptions {
  keepAlive: boolean
  /** Milliseconds; the agent reads it when a connection becomes idle. */
  timeout: number
}

interface Agent {
  readonly options: Partial<AgentOptions>
}

/** The part of Node.js's modules `http` and `https` that is used: their own types exist only there. */
interface HttpModule {
  readonly Agent: new (options: AgentOptions) => Agent
  request(url: string, options: object): ClientRequest
}

interface ClientRequest {
  on(event: 'error', listener: (error: Error) => void): unknown
  on(event: 'response', listener: (response: IncomingMessage) => void): unknown
  on(event: 'close', listener: () => void): unknown
  end(text?: string): unknown
  destroy(error: Error): unknown
}

interface IncomingMessage {
  readonly statusCode?: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  setEncoding(encoding: 'utf8'): unknown
  on(event: 'data', listener: (text: string) => void): unknown
  on(event: 'end', listener: () => void): unknown
  on(event: 'error', listener: (error: Error) => void): unknown
}

/** How long an idle connection is kept: it must end before the server ends it, mostly after 5 s. */
const IDLE_MS = 4_000
/** The most if the server's `Keep-Alive` header allows a longer time. */
const LONG_IDLE_MS = 60_000

/**
 * A `fetch` over Node.js's own HTTP client, for small JSON bodies only; `undefined` where that is missing.
 * Node.js's global `fetch` takes about 350 µs of CPU per request, this one 60 (Node 20, two cores). With one
 * request per job that decides how many jobs a worker can do. Imports nothing, so that no Node.js module gets
 * into a browser's bundle.
 */
export function nodeFetch(): Fetch | undefined {
  const { process } = globalThis as {
    process?: { getBuiltinModule?: (name: string) => HttpModule | undefined }
  }
  const http = process?.getBuiltinModule?.('http')
  const https = process?.getBuiltinModule?.('https')
  if (!http || !https) return undefined
  const options = { keepAlive: true, timeout: IDLE_MS }
  const plain = { module: http, agent: new http.Agent(options) }
  const secure = { module: https, agent: new https.Agent(options) }
  return (url, init) => sendRequest(url.startsWith('https:') ? secure : plain, url, init)
}

function sendRequest(
  { module, agent }: { module: HttpModule; agent: Agent },
  url: string,
  { method, headers, body, signal }: Parameters<Fetch>[1],
): ReturnType<Fetch> {
  return new Promise((resolve, reject) => {
    const request = module.request(url, { method, headers: sized(headers, body), agent })
    const abort = () => request.destroy(new Error('The request was aborted.'))
    signal.addEventListener('abort', abort, { once: true })
    request.on('error', reject)
    let hasAnswer = false
    // A 101 answer (protocol upgrade) closes the request without `response` or `error`, and an abort has no
    // effect then.
    request.on('close', () => {
      if (!hasAnswer) reject(new Error('The connection ended without an answer.'))
    })
    request.on('response', (response) => {
      hasAnswer = true
      agent.options.timeout = idleMs(response)
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (part) => {
        text += part
      })
      response.on('error', reject)
      response.on('end', () => resolve(answer(response, text)))
    })
    request.end(body)
  })
}

/**
 * How long to keep an idle connection: half of the server's `Keep-Alive` timeout, from 4 s to 60 s. With 4 s
 * each heartbeat, which comes every 5 s, would need a new connection. A server on Node.js accepts only one in
 * a turn of its event loop: a busy one took so long that leases ran out.
 */
function idleMs({ headers }: IncomingMessage): number {
  const [, seconds = '0'] = /\btimeout=(\d+)/.exec(String(headers['keep-alive'])) ?? []
  return Math.max(IDLE_MS, Math.min(LONG_IDLE_MS, (Number(seconds) * 1_000) / 2))
}

function sized(headers: Record<string, string>, body: string | undefined) {
  if (body === undefined) return headers
  return { ...headers, 'content-length': String(new TextEncoder().encode(body).length) }
}

function answer({ statusCode = 0, headers }: IncomingMessage, text: string) {
  return {
    status: statusCode,
    headers: {
      forEach(visit: (value: string, name: string) => void) {
        for (const [name, value] of Object.entries(headers)) visit(String(value), name)
      },
    },
    text: () => Promise.resolve(text),
  }
}
