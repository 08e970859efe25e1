import { describe, expect, it } from 'vitest'
import {
  isAtLeast,
  type QueueKind,
  type QueueProfile,
  queueArguments,
} from '../../../src/broker/topology/queue-arguments.ts'

const VERSIONS = ['3.10.8', '3.13.7', '4.0.9', '4.3.1']
const PROFILES: QueueProfile[] = ['classic', 'quorum']
const DLX = { deadLetter: { exchange: 'ojs.exchange.dlx', key: 'email' } }
const RETRY = { deadLetter: { exchange: 'ojs.exchange.direct', key: 'email' }, ttlMs: 5000 }

const SAFE = { 'x-dead-letter-strategy': 'at-least-once', 'x-overflow': 'reject-publish' }
const NO_LIMIT = { 'x-delivery-limit': 1_000_000 }
const TO_DLX = {
  'x-dead-letter-exchange': 'ojs.exchange.dlx',
  'x-dead-letter-routing-key': 'email',
}
const TO_DIRECT = {
  'x-dead-letter-exchange': 'ojs.exchange.direct',
  'x-dead-letter-routing-key': 'email',
}

const OPTIONS: Record<QueueKind, object> = {
  job: DLX,
  dlx: {},
  control: DLX,
  rung: RETRY,
  due: {},
  'dead-letters': {},
  owner: {},
}

/** Architecture §3, as a table; the same for every broker version from 3.10 on. */
const EXPECTED: Record<QueueKind, Record<QueueProfile, object>> = {
  job: {
    classic: { 'x-queue-type': 'classic', ...TO_DLX, 'x-max-priority': 10 },
    quorum: { 'x-queue-type': 'quorum', ...TO_DLX, ...SAFE, ...NO_LIMIT },
  },
  control: {
    classic: { 'x-queue-type': 'classic', ...TO_DLX },
    quorum: { 'x-queue-type': 'quorum', ...TO_DLX, ...SAFE, ...NO_LIMIT },
  },
  dlx: both({ 'x-queue-type': 'quorum', ...NO_LIMIT }),
  rung: both({ 'x-queue-type': 'quorum', ...TO_DIRECT, 'x-message-ttl': 5000, ...SAFE }),
  due: both({ 'x-queue-type': 'quorum', ...NO_LIMIT }),
  'dead-letters': both({ 'x-queue-type': 'quorum', ...NO_LIMIT }),
  owner: both({ 'x-queue-type': 'classic' }),
}

function both(args: object): Record<QueueProfile, object> {
  return { classic: args, quorum: args }
}

const KINDS = Object.keys(EXPECTED) as QueueKind[]
const CELLS = VERSIONS.flatMap((version) =>
  PROFILES.flatMap((profile) => KINDS.map((kind) => ({ version, profile, kind }))),
)

describe('queueArguments', () => {
  it.each(CELLS)(
    '$version $profile $kind: returns the arguments of docs/architecture.md §3',
    ({ version, profile, kind }) => {
      expect(queueArguments(kind, profile, version, OPTIONS[kind])).toEqual(EXPECTED[kind][profile])
    },
  )

  it.each(CELLS)(
    '$version $profile $kind: contains no argument that this queue type refuses',
    (cell) => {
      const args = queueArguments(cell.kind, cell.profile, cell.version, {
        ...OPTIONS[cell.kind],
        limits: { maxLength: 5, maxLengthBytes: 6, messageTtlMs: 7 },
      })
      expect(args['x-queue-type']).toMatch(/^(classic|quorum)$/)
      if (args['x-queue-type'] === 'quorum') expect(args).not.toHaveProperty('x-max-priority')
      else {
        expect(args).not.toHaveProperty('x-delivery-limit')
        expect(args).not.toHaveProperty('x-dead-letter-strategy')
      }
      expect(args).not.toHaveProperty('x-expires')
      // Without reject-publish, RabbitMQ silently makes at-least-once at-most-once.
      if (args['x-dead-letter-strategy']) expect(args['x-overflow']).toBe('reject-publish')
    },
  )

  it('returns what seed 002 §15.1 declares, in the classic profile', () => {
    const { 'x-queue-type': type, ...seed } = queueArguments('job', 'classic', '3.10.8', DLX)
    expect(type).toBe('classic')
    expect(seed).toEqual({
      'x-dead-letter-exchange': 'ojs.exchange.dlx',
      'x-dead-letter-routing-key': 'email',
      'x-max-priority': 10,
    })
  })

  it('adds limits, and rejects publishes rather than dropping messages when the queue is full', () => {
    const limits = { maxLength: 5, maxLengthBytes: 6, messageTtlMs: 7 }
    expect(queueArguments('job', 'classic', '3.13.0', { ...DLX, limits })).toMatchObject({
      'x-max-length': 5,
      'x-max-length-bytes': 6,
      'x-message-ttl': 7,
      'x-overflow': 'reject-publish',
    })
  })

  it.each([{ maxLength: 5 }, { maxLengthBytes: 6 }])(
    'rejects publishes when %o is the only limit',
    (limits) => {
      const args = queueArguments('job', 'classic', '3.13.0', { ...DLX, limits })
      expect(args['x-overflow']).toBe('reject-publish')
    },
  )

  it('omits at-least-once dead lettering when the operator wants drop-head', () => {
    const limits = { maxLength: 5, overflow: 'drop-head' as const }
    const args = queueArguments('job', 'quorum', '3.13.0', { ...DLX, limits })
    expect(args['x-overflow']).toBe('drop-head')
    expect(args).not.toHaveProperty('x-dead-letter-strategy')
  })

  it('omits arguments that a broker before 3.10 would store without understanding them', () => {
    const args = queueArguments('job', 'quorum', '3.9.29', DLX)
    expect(args).not.toHaveProperty('x-dead-letter-strategy')
    expect(args).not.toHaveProperty('x-overflow')
  })
})

describe('isAtLeast', () => {
  it.each([
    ['3.10.8', 3, 10, true],
    ['3.9.29', 3, 10, false],
    ['3.13.7+1', 3, 10, true],
    ['4.0.0-rc.1', 3, 10, true],
    ['4.0.0', 4, 3, false],
    ['4.3.1', 4, 3, true],
    ['', 3, 10, true],
  ] as const)('%s ≥ %i.%i: %s', (version, major, minor, expected) => {
    expect(isAtLeast(version, major, minor)).toBe(expected)
  })
})
