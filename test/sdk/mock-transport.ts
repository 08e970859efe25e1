import type { Transport, TransportRequest } from '../../src/sdk/index.ts'

type Answer = { status: number; body: unknown } | Error

/** A transport without a server: it answers from a list or a function and records the requests. */
export interface MockTransport extends Transport {
  readonly requests: TransportRequest[]
  /** The only request so far. */
  readonly only: TransportRequest
}

/** A function answers every request. A list answers one request per item; further requests throw. */
export function mockTransport(
  answers: readonly Answer[] | ((request: TransportRequest) => Answer),
): MockTransport {
  const requests: TransportRequest[] = []
  return {
    requests,
    get only() {
      const [first, ...others] = requests
      if (!first || others.length > 0) throw new Error(`${requests.length} requests were sent`)
      return first
    },
    async request(opts) {
      requests.push(opts)
      const answer = typeof answers === 'function' ? answers(opts) : answers[requests.length - 1]
      if (!answer) throw new Error(`unexpected request: ${opts.method} ${opts.path}`)
      if (answer instanceof Error) throw answer
      return answer
    },
  }
}

/** The job that a server stores for a PUSH. */
export function stored(request: TransportRequest, over: object = {}): Record<string, unknown> {
  const { options, ...job } = request.body as Record<string, unknown> & { options?: object }
  return { queue: 'default', state: 'available', attempt: 0, ...job, ...options, ...over }
}

export function answered(error: object, status: number): Answer {
  return { status, body: { error } }
}
