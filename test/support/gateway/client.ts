import { Agent, type IncomingHttpHeaders, request } from 'node:http'

const MEDIA_TYPE = 'application/openjobspec+json'

/** An answer. Status 0: there was none, because the connection ended first. */
export interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  /** The parsed body; `{}` when there is none. */
  readonly body: Readonly<Record<string, unknown>>
}

export type Job = Readonly<Record<string, unknown>> & { readonly id: string }

const NO_ANSWER: Answer = { status: 0, headers: {}, text: '', body: {} }

/** A plain OJS client over keep-alive connections, as many as there are requests at a time. */
export class OjsClient {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY })
  readonly #url: () => string

  /** `url` is called for each request: a gateway that was restarted may have another port. */
  constructor(url: () => string) {
    this.#url = url
  }

  push(job: object, headers: Record<string, string> = {}): Promise<Answer> {
    return this.send('POST', '/ojs/v1/jobs', job, headers)
  }

  fetch(body: { queues: readonly string[]; [option: string]: unknown }): Promise<Answer> {
    return this.send('POST', '/ojs/v1/workers/fetch', body)
  }

  ack(body: { job_id: string; [option: string]: unknown }): Promise<Answer> {
    return this.send('POST', '/ojs/v1/workers/ack', body)
  }

  get(id: string): Promise<Answer> {
    return this.send('GET', `/ojs/v1/jobs/${id}`)
  }

  cancel(id: string): Promise<Answer> {
    return this.send('DELETE', `/ojs/v1/jobs/${id}`)
  }

  health(): Promise<Answer> {
    return this.send('GET', '/ojs/v1/health')
  }

  close(): void {
    this.#agent.destroy()
  }

  send(
    method: 'GET' | 'POST' | 'DELETE',
    path: string,
    body?: object,
    headers: Record<string, string> = {},
  ): Promise<Answer> {
    const text = body === undefined ? undefined : JSON.stringify(body)
    const type: Record<string, string> = text === undefined ? {} : { 'content-type': MEDIA_TYPE }
    const options = { method, agent: this.#agent, headers: { ...type, ...headers } }
    return new Promise((resolve) => {
      const sent = request(`${this.#url()}${path}`, options, (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        // An answer that was cut short counts as none.
        response.on('error', () => resolve(NO_ANSWER))
        response.on('end', () => {
          const received = Buffer.concat(chunks).toString()
          const { statusCode: status = 0, headers } = response
          resolve({ status, headers, text: received, body: parse(received) })
        })
      })
      sent.on('error', () => resolve(NO_ANSWER))
      sent.end(text)
    })
  }
}

/** The jobs of a FETCH answer; none when it was refused. */
export function jobsOf(answer: Answer): readonly Job[] {
  const { jobs } = answer.body
  return Array.isArray(jobs) ? jobs.filter(isJob) : []
}

/** The job of a PUSH, GET or ACK answer. */
export function jobOf(answer: Answer): Job {
  const { job } = answer.body
  if (isJob(job)) return job
  throw new Error(`no job in the answer: ${answer.status} ${answer.text.slice(0, 500)}`)
}

function isJob(value: unknown): value is Job {
  return typeof value === 'object' && value !== null && 'id' in value
}

function parse(text: string): Answer['body'] {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Answer['body']) : {}
  } catch {
    return {}
  }
}
