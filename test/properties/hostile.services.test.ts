import { describe, expect, test } from 'vitest'
import { APPENDIX_A } from '../http/endpoints.ts'
import { type RawAnswer, RawClient, request } from '../http/raw-client.ts'
import { fetchOne, gatewayForAll } from '../operations/harness.ts'
import { amount } from '../support/soak.ts'
import type { BODIES } from './hostile-bodies.ts'
import { type Input, inputsFor } from './hostile-inputs.ts'

const { gateway } = gatewayForAll({ OJS_MAX_QUEUES: '20', OJS_QUEUES: 'default,afterwards' })

const SOCKETS = 6
/** Requests in flight on one socket. */
const WINDOW = 8
const INPUTS = amount(7_000, 20_000)
/** Twice as long as a path can be, and shorter than most of the bodies. */
const MAX_ERROR_BYTES = 40_000
const seed = Number(process.env['OJS_TEST_SEED'] ?? Date.now() % 2 ** 31)

/** Seed 001, Appendix B, without the codes that only workers use. */
const CODES = [
  ...['invalid_payload', 'invalid_request', 'not_found', 'rate_limited', 'duplicate'],
  ...['queue_paused', 'schema_validation', 'unsupported'],
]

const paths = APPENDIX_A.filter((endpoint) => endpoint.startsWith('POST ')).map(
  (endpoint) => endpoint.slice('POST '.length) as keyof typeof BODIES,
)
let sent = 0

describe(`OJS_TEST_SEED=${seed}`, () => {
  test.each(paths)(
    'hostile bodies get only answers of OJS: POST %s',
    async (path) => {
      const inputs = inputsFor(path, INPUTS / paths.length, seed)
      const wrong: string[] = []
      const check = (input: Input, answer: RawAnswer) => {
        const complaint = complaintAbout(answer)
        if (complaint !== undefined) {
          const body = input.body.toString().slice(0, 300)
          wrong.push(`${complaint}: ${input.what}: POST ${input.path.slice(0, 100)} ${body}`)
        }
      }
      await sendAll(inputs, check)
      sent += inputs.length
      expect(wrong.slice(0, 10)).toEqual([])
    },
    120_000,
  )

  test('the gateway works as before after all hostile bodies', async () => {
    expect(sent).toBeGreaterThanOrEqual(INPUTS)
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
    expect((await gateway.request('GET', '/ojs/v1/health')).status).toBe(200)
    const queue = 'afterwards'
    const { body } = await gateway.push(queue)
    const job = await fetchOne(gateway, queue)
    expect(job.id).toBe(body.job.id)
    expect((await gateway.ack(job.id)).status).toBe(200)
  })
})

async function sendAll(
  inputs: readonly Input[],
  check: (input: Input, answer: RawAnswer) => void,
): Promise<void> {
  const port = Number(new URL(gateway.url).port)
  let next = 0
  const work = async () => {
    const client = await RawClient.connect(port)
    const onTheWay: Input[] = []
    for (;;) {
      while (onTheWay.length < WINDOW && next < inputs.length) {
        const input = inputs[next++]
        if (input === undefined) break
        onTheWay.push(input)
        client.send(bytesOf(input))
      }
      const oldest = onTheWay.shift()
      if (oldest === undefined) break
      check(oldest, await client.answer())
    }
    client.destroy()
  }
  await Promise.all(Array.from({ length: SOCKETS }, work))
}

function bytesOf({ path, body, contentType }: Input): Buffer {
  return request('POST', path, { 'Content-Type': contentType }, body)
}

/** What is wrong with an answer, or undefined. */
function complaintAbout({ status, headers, body }: RawAnswer): string | undefined {
  if (status < 200 || status >= 500) return `status ${status} ${body.slice(0, 300)}`
  if (headers['content-type'] !== 'application/openjobspec+json') return 'media type'
  if (headers['ojs-version'] !== '1.0') return 'OJS-Version'
  const requestId = headers['x-request-id']
  if (!requestId) return 'X-Request-Id'
  const document: unknown = JSON.parse(body)
  return status < 400 ? undefined : complaintAboutError(document, requestId, body)
}

function complaintAboutError(
  document: unknown,
  requestId: string,
  text: string,
): string | undefined {
  const { error } = document as { error?: Record<string, unknown> }
  if (error === undefined) return `no error in ${text.slice(0, 300)}`
  if (!CODES.includes(String(error['code']))) return `code ${error['code']}`
  if (typeof error['message'] !== 'string' || error['message'] === '') return 'message'
  if (typeof error['retryable'] !== 'boolean') return 'retryable'
  if (error['request_id'] !== requestId) return 'request_id'
  return text.length > MAX_ERROR_BYTES ? `an error of ${text.length} bytes` : undefined
}
