import { describe, expect, test } from 'vitest'
import type { Handler } from '../../../src/sdk/index.ts'
import { NativeProducer } from '../../../src/worker/index.ts'
import { freshQueue, gatewayForAll, untilState } from '../../operations/harness.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { gate, workersOfTest } from '../harness.ts'

const { vhost, gateway } = gatewayForAll()
const start = workersOfTest(() => vhost.url)

const nested = (levels: number): unknown => (levels === 0 ? 1 : [nested(levels - 1)])
const SHOWN = { code: 'E_ODD', odd: 1.6e18 }

/** Ends of a job that could spoil the report message that it shares with other jobs. */
const CASES: [string, () => unknown, object][] = [
  [
    'a result that nests too deep',
    () => nested(32),
    { state: 'discarded', error: { code: 'handler_error', type: 'ResultError' } },
  ],
  ['a result as deep as over HTTP', () => nested(31), { state: 'completed', result: nested(31) }],
  [
    'a result with an integer that JavaScript writes as it reads it',
    () => ({ n: 1.6e18 }),
    { state: 'completed', result: { n: 1.6e18 } },
  ],
  [
    'an error with such an integer',
    () => {
      throw Object.assign(new Error('odd'), { details: SHOWN, retryable: false })
    },
    { state: 'discarded', error: { message: 'odd', details: SHOWN } },
  ],
  ['a lone surrogate', () => '\ud800', { state: 'completed' }],
  [
    'an error with NUL',
    () => {
      throw Object.assign(new Error('a\u0000b'), { retryable: false })
    },
    { state: 'discarded', error: { message: 'a\u0000b' } },
  ],
  ['__proto__', () => JSON.parse('{"__proto__":{"a":1}}'), { state: 'completed' }],
]

/** Runs these jobs so that all end in the same turn, and therefore share a report message. */
async function runTogether(
  queue: string,
  ids: readonly string[],
  odd: (id: string) => unknown,
): Promise<void> {
  const all = gate()
  let begun = 0
  const handler: Handler = async ({ job }) => {
    begun += 1
    if (begun === ids.length) all.open()
    await all.opened
    return odd(job.id)
  }
  await start(queue, handler, { concurrency: 20 })
}

describe('jobs that share a report message all reach the gateway', () => {
  test.each(CASES)('if one has %s', async (_name, odd, expected) => {
    const queue = freshQueue()
    const ids: string[] = []
    for (let n = 0; n < 8; n++) ids.push((await gateway.push(queue)).body.job.id)
    const [first = ''] = ids
    await runTogether(queue, ids, (id) => (id === first ? odd() : { fine: true }))
    for (const id of ids.slice(1)) {
      expect(await untilState(gateway, id, 'completed')).toMatchObject({ result: { fine: true } })
    }
    await eventually(async () => (await gateway.get(first)).body.job.state !== 'active')
    expect((await gateway.get(first)).body.job).toMatchObject(expected)
  })

  test.each([
    ['nested as deep as allowed', nested(31)],
    ['50 kB long', 'x'.repeat(50_000)],
  ])(
    'with large results and a job unknown to the gateway whose args are %s',
    async (_name, arg) => {
      const queue = freshQueue()
      const producer = new NativeProducer({ url: vhost.url, logger: false })
      const args = [arg, 1, 2].map((one) => (Array.isArray(one) ? one : [one]))
      const jobs = []
      for (const one of args) jobs.push(await producer.enqueue('test.job', one, { queue }))
      await producer.close()
      await runTogether(
        queue,
        jobs.map(({ id }) => id),
        () => 'x'.repeat(999_000),
      )
      for (const { id } of jobs) {
        const isCompleted = async () => (await gateway.get(id)).body.job?.state === 'completed'
        await eventually(isCompleted, 30_000)
      }
    },
  )
})
