import type {
  Transport,
  TransportRequest,
  TransportResponse,
} from '../../src/sdk/transport/transport.ts'

type Body = Record<string, unknown>

/** Makes the server's answer to a request for one path; a thrown error rejects the request. */
export type Script = (body: Body, request: TransportRequest) => unknown

/** A transport whose answers come from one script per path. It records all requests. */
export class ScriptedTransport implements Transport {
  /** What the manifest lists. */
  extensions: string[] = []
  readonly sent: { path: string; body: Body }[] = []
  readonly scripts: Record<string, Script> = {
    '/ojs/manifest': () => ({ extensions: this.extensions }),
    '/workers/fetch': () => ({ jobs: [] }),
    '/workers/ack': () => ({ acknowledged: true }),
    '/workers/nack': () => ({ state: 'retryable' }),
    '/workers/heartbeat': () => ({ state: 'running', jobs_extended: [] }),
  }

  async request(request: TransportRequest): Promise<TransportResponse> {
    const body = (request.body ?? {}) as Body
    this.sent.push({ path: request.path, body })
    const script = this.scripts[request.path]
    const method = request.path === '/ojs/manifest' ? 'GET' : 'POST'
    if (!script || request.method !== method) {
      throw new Error(`Unexpected request: ${request.method} ${request.path}`)
    }
    return { status: 200, body: await script(body, request) }
  }

  bodiesOf(path: string): Body[] {
    return this.sent.filter((request) => request.path === path).map(({ body }) => body)
  }

  get fetches(): Body[] {
    return this.bodiesOf('/workers/fetch')
  }

  get acks(): Body[] {
    return this.bodiesOf('/workers/ack')
  }

  get nacks(): Body[] {
    return this.bodiesOf('/workers/nack')
  }

  get heartbeats(): Body[] {
    return this.bodiesOf('/workers/heartbeat')
  }
}
