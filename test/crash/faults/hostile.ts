import { v7 } from 'uuid'
import type { PikaPublish } from '../../support/broker/pika.ts'
import type { Random } from '../random.ts'

/** A message from a publisher that knows where to publish, but not what. */
export interface Hostile {
  body: Buffer
  properties: {
    messageId?: string
    priority?: number
    expiration?: string
    timestamp?: number
    contentType?: string
    contentEncoding?: string
    replyTo?: string
    persistent?: boolean
    headers?: Record<string, unknown>
  }
}

type Make = (random: Random) => Hostile

const bytes = (random: Random, length: number) =>
  Buffer.from(Array.from({ length }, () => random.integer(0, 255)))
const pick = <T>(random: Random, values: readonly [T, ...T[]]): T =>
  values[random.integer(0, values.length - 1)] ?? values[0]
const textOf = (random: Random) => bytes(random, random.integer(0, 40)).toString('latin1')

/** Any JSON value that is no string, no array and not null: wrong wherever one of those belongs. */
const anything = (random: Random): unknown =>
  pick<unknown>(random, [
    {},
    { a: [1] },
    7,
    -1,
    1e300,
    0.1,
    true,
    false,
    { toString: 1, constructor: 1 },
  ])

const json = (value: unknown, properties: Hostile['properties'] = {}): Hostile => ({
  body: Buffer.from(JSON.stringify(value)),
  properties,
})

const job = (members: object = {}) => ({
  specversion: '1.0',
  id: v7(),
  type: 'a.b',
  args: [],
  ...members,
})

/** One member has a wrong type, and another one has a random name. */
const wrongMember: Make = (random) => {
  const member = pick(random, [
    'id',
    'type',
    'args',
    'queue',
    'specversion',
    'retry',
    'options',
    'tags',
  ])
  const list = member === 'args' || member === 'tags'
  const value = member === 'retry' || member === 'options' ? textOf(random) : anything(random)
  return json(job({ [member]: list ? { 0: value } : value, [textOf(random)]: anything(random) }))
}

const missingMember: Make = (random) =>
  json(job({ [pick(random, ['id', 'type', 'args'])]: undefined }), {
    ...(random.next() < 0.5 && { messageId: v7() }),
  })

const deep: Make = (random) => {
  const depth = random.integer(100, 5_000)
  const [open, close] = pick(random, [
    ['[', ']'],
    ['{"a":', '}'],
  ] as const)
  const args = `${open.repeat(depth)}1${random.next() < 0.5 ? close.repeat(depth) : ''}`
  return { body: Buffer.from(`{"id":"${v7()}","type":"a.b","args":[${args}]}`), properties: {} }
}

const forgedDeath: Make = (random) => {
  const death = {
    queue: pick(random, [
      'ojs.queue.q',
      'ojs.queue.dlx.q',
      'ojs.system.dead-letters',
      textOf(random),
    ]),
    reason: pick(random, ['rejected', 'expired', 'maxlen', 'delivery_limit', textOf(random)]),
    exchange: 'ojs.exchange.dlx',
    count: random.integer(-5, 1_000_000),
    'routing-keys': ['q'],
  }
  const headers = {
    'x-death': pick<unknown>(random, [[death, death], [], 'never', 7, { queue: 'ojs.queue.q' }]),
    'x-first-death-queue': 'ojs.queue.q',
    'x-first-death-reason': 'delivery_limit',
    'x-delivery-count': random.integer(-9, 1_000_000),
  }
  return { body: bytes(random, 20), properties: { messageId: v7(), headers } }
}

const wrongHeaders: Make = (random) => {
  const names = [
    'x-ojs-attempt',
    'x-ojs-max-attempts',
    'x-ojs-queue',
    'x-ojs-tags',
    'x-ojs-trace-id',
  ]
  const value = () =>
    pick<unknown>(random, [-5, 0, 2 ** 40, 'many', true, [1, 'a'], { a: { b: 1 } }, textOf(random)])
  const headers = Object.fromEntries(names.map((name) => [name, value()]))
  return { ...missingMember(random), properties: { messageId: textOf(random), headers } }
}

const wrongProperties: Make = (random) => ({
  body: bytes(random, random.integer(0, 200)),
  properties: {
    messageId: textOf(random),
    priority: random.integer(0, 255),
    timestamp: pick(random, [0, 1, 2 ** 50, 2 ** 53 - 1]),
    contentType: textOf(random),
    contentEncoding: pick(random, ['gzip', 'utf-16', textOf(random)]),
    replyTo: textOf(random),
    persistent: random.next() < 0.5,
  },
})

/** Headers as large as amqplib can make them. */
const largeHeaders: Make = (random) => {
  const large = 'x'.repeat(60_000)
  const headers = pick<Record<string, unknown>>(random, [
    { large },
    Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`h-${i}`, i])),
    { 'x-ojs-error-message': large, 'x-ojs-attempt': -1 },
  ])
  return { body: bytes(random, 10), properties: { messageId: v7(), headers } }
}

/** Headers of nearly a whole frame, for a client that can send them. */
export function hugeHeaders(): PikaPublish {
  const large = 'x'.repeat(50_000)
  return { body: 'no job', headers: { large, 'x-ojs-error-message': large, 'x-ojs-attempt': -1 } }
}

const hugeBody: Make = (random) =>
  pick(random, [
    { body: Buffer.alloc(3_000_000, 0x5b), properties: {} },
    json(job({ type: 'x'.repeat(2_000_000) })),
  ])

const USUAL: readonly [Make, ...Make[]] = [
  (random) => ({ body: bytes(random, random.integer(0, 300)), properties: {} }),
  (random) => json(anything(random)),
  (random) => json(job({ id: textOf(random) }), { messageId: textOf(random) }),
  () => json(job(), { messageId: v7() }),
  (random) =>
    json(job({ x_ojs_generation: 1e99, attempt: -1, id: `${v7()}0` }), {
      expiration: pick(random, ['0', '5']),
    }),
  ...[wrongMember, missingMember, deep, forgedDeath, wrongHeaders, wrongProperties],
]

/** The `n`th of many: no OJS job, whatever it looks like. */
export function noJob(random: Random, n: number): Hostile {
  if (n % 2_000 === 0) return hugeBody(random)
  if (n % 100 === 0) return largeHeaders(random)
  return pick(random, USUAL)(random)
}

/** A job message of a job that is over, with a claim that no job message of it could make. */
export function staleMessage(random: Random, id: string): Hostile {
  const generation = pick<unknown>(random, [-1, 0, 1, 1e99, '1', null])
  const attempt = pick<unknown>(random, [-3, 0, 1, 2, 3, 1_000, 2 ** 31, '2', 'x', null])
  return json(job({ id, x_ojs_generation: generation }), {
    messageId: id,
    headers: attempt === null ? {} : { 'x-ojs-attempt': attempt },
  })
}
