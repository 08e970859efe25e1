import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { JOB_STATES } from '../../src/job/job.ts'
import type { UniqueRequest } from '../../src/job/request.ts'
import { atTimeOf, storedTerms, uniqueEcho, uniqueOf } from '../../src/job/unique.ts'
import { canonicalJson, sha256 } from '../../src/job/values/canonical-json.ts'
import { parsePush } from '../../src/schemas/requests/validator.ts'
import { jobRow } from '../http/job-rows.ts'
import { newJob } from '../support/gateway/jobs.ts'

const SUBJECT = { type: 'report.build', queue: 'q', args: [] as unknown[], meta: {} }
const keyOf = (policy: UniqueRequest, over: Partial<typeof SUBJECT> = {}) =>
  uniqueOf(policy, { ...SUBJECT, ...over }, 'unique').key
const termsOf = (policy: UniqueRequest) => uniqueOf(policy, SUBJECT, 'unique')
const fieldOf = (policy: UniqueRequest) => {
  try {
    uniqueOf(policy, SUBJECT, 'options.unique')
  } catch (error) {
    return error
  }
  throw new Error('it was taken')
}

describe('the key of a unique job', () => {
  it.each<[string, UniqueRequest, object]>([
    [
      'the type and all arguments, by seed 003 without fields',
      {},
      { type: 'report.build', args: [1, { a: 2, b: 3 }] },
    ],
    [
      'the type and a field of the arguments, by seed 003',
      { key: ['a'] },
      { type: 'report.build', args: { a: 2 } },
    ],
    ['the type, by the other dialect', { keys: ['type'] }, { type: 'report.build' }],
    [
      'the type and all arguments, by a key that means keys, as no argument has such fields',
      { key: ['type', 'args'] },
      { type: 'report.build', args: [1, { a: 2, b: 3 }] },
    ],
    [
      'the type and the queue, by a key that means keys',
      { key: ['queue', 'type'] },
      { type: 'report.build', queue: 'q' },
    ],
    [
      'the type and no field, by a key of which one name can only be a field',
      { key: ['args', 'x'] },
      { type: 'report.build', args: {} },
    ],
    [
      'the type and the queue, although keys lacks the type',
      { keys: ['queue'] },
      { type: 'report.build', queue: 'q' },
    ],
    [
      'the type and all arguments, by keys',
      { keys: ['args'] },
      { type: 'report.build', args: [1, { a: 2, b: 3 }] },
    ],
    [
      'the type and the named fields that exist',
      { keys: ['args'], args_keys: ['b', 'x'] },
      { type: 'report.build', args: { b: 3 } },
    ],
    [
      'the type and the named fields, without keys',
      { args_keys: ['b'] },
      { type: 'report.build', args: { b: 3 } },
    ],
    [
      'the type and arguments by their position',
      { args_keys: ['0', '7'] },
      { type: 'report.build', args: { 0: 1 } },
    ],
    [
      'the type and members of meta',
      { meta_keys: ['t', 'u'] },
      { type: 'report.build', meta: { t: 'x' } },
    ],
  ])('consists of %s', (_, policy, canonical) => {
    const key = keyOf(policy, { args: [1, { a: 2, b: 3 }], meta: { t: 'x', v: 1 } })
    expect(key).toBe(sha256(canonicalJson(canonical)))
  })

  it('takes a field from the first object that has it', () => {
    const first = keyOf({ key: ['id'] }, { args: ['x', { a: 1 }, { id: 1 }, { id: 2 }] })
    expect(first).toBe(keyOf({ key: ['id'] }, { args: [{ id: 1 }] }))
    expect(first).not.toBe(keyOf({ key: ['id'] }, { args: [{ id: 2 }] }))
  })

  it('finds a field by any normal form of its name', () => {
    const [composed, apart] = ['gr\u00f6\u00dfe', 'gro\u0308\u00dfe']
    for (const [said, written] of [
      [composed, apart],
      [apart, composed],
    ] as const) {
      const ofArgs = (value: number) => keyOf({ key: [said] }, { args: [{ [written]: value }] })
      const ofMeta = (value: number) => keyOf({ meta_keys: [said] }, { meta: { [written]: value } })
      expect(ofArgs(1)).not.toBe(ofArgs(2))
      expect(ofArgs(1)).toBe(keyOf({ key: [said] }, { args: [{ [said]: 1 }] }))
      expect(ofMeta(1)).not.toBe(ofMeta(2))
    }
  })

  it('looks at each argument once, however many fields are named', () => {
    let looks = 0
    const seen = (arg: object) =>
      new Proxy(arg, {
        ownKeys: (target) => {
          looks++
          return Reflect.ownKeys(target)
        },
        getOwnPropertyDescriptor: (target, name) => {
          looks++
          return Reflect.getOwnPropertyDescriptor(target, name)
        },
      })
    const key = Array.from({ length: 300 }, (_, i) => `k${i}`)
    keyOf({ key }, { args: Array.from({ length: 300 }, () => seen({})) })
    expect(looks).toBeLessThanOrEqual(600)
  })

  it('distinguishes a missing field from null, but not from missing arguments', () => {
    const missing = keyOf({ key: ['id'] }, { args: [{ a: 1 }] })
    expect(missing).toBe(keyOf({ key: ['id'] }, { args: [] }))
    expect(missing).not.toBe(keyOf({ key: ['id'] }, { args: [{ id: null }] }))
  })

  it('reads own members only', () => {
    const policy = { key: ['__proto__', 'toString'], meta_keys: ['constructor'] }
    expect(keyOf(policy, { args: [{}], meta: {} })).toBe(keyOf(policy, { args: [], meta: {} }))
    const [arg] = JSON.parse('[{"__proto__":{"a":1}}]')
    expect(keyOf({ key: ['__proto__'] }, { args: [arg] })).not.toBe(
      keyOf({ key: ['__proto__'] }, { args: [{}] }),
    )
    expect({}).not.toHaveProperty('a')
  })

  it('is the same for equal arguments only', () => {
    const args = fc.array(fc.jsonValue({ stringUnit: 'grapheme-ascii' }), { maxLength: 4 })
    fc.assert(
      fc.property(args, args, (a, b) => {
        const [plainA, plainB] = [a, b].map((value) => JSON.parse(JSON.stringify(value)))
        const isSame = canonicalJson(plainA) === canonicalJson(plainB)
        expect(keyOf({}, { args: plainA }) === keyOf({}, { args: plainB })).toBe(isSame)
        expect(keyOf({ keys: ['type'] }, { args: a })).toBe(keyOf({ keys: ['type'] }, { args: b }))
      }),
    )
  })

  it('depends neither on the order of names nor on repeated ones', () => {
    const names = fc.uniqueArray(fc.constantFrom('a', 'b', 'c', '0', '1'), { minLength: 1 })
    const arg = fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd'), fc.jsonValue())
    fc.assert(
      fc.property(names, fc.array(arg), (key, args) => {
        const turned = [...key, ...key].reverse()
        expect(keyOf({ key: turned }, { args })).toBe(keyOf({ key }, { args }))
        expect(keyOf({ args_keys: key }, { args })).toBe(keyOf({ key }, { args }))
      }),
    )
  })

  it('differs between any two types', () => {
    const policy = fc.record({ keys: fc.subarray(['type', 'queue', 'args']) })
    fc.assert(
      fc.property(policy, (unique) => {
        expect(keyOf(unique)).not.toBe(keyOf(unique, { type: 'report.send' }))
      }),
    )
  })
})

describe('the terms of a unique policy', () => {
  it('default to every state that is not terminal, no period, and a refusal', () => {
    expect(termsOf({})).toMatchObject({ periodMs: null, onConflict: 'reject' })
    expect(new Set(termsOf({ states: [] }).states)).toEqual(
      new Set(['scheduled', 'available', 'pending', 'active', 'retryable']),
    )
    const nulls = { key: null, keys: null, period: null, states: null, on_conflict: null }
    expect(termsOf(nulls)).toEqual(termsOf({}))
  })

  it('accept all states, and repeat none', () => {
    expect(termsOf({ states: [...JOB_STATES, 'active'] }).states).toEqual(JOB_STATES)
  })

  it.each([
    ['PT1H', 3_600_000],
    ['90s', 90_000],
    [60, 60_000],
  ])('accept the period %s', (period, ms) => {
    expect(termsOf({ within: period }).periodMs).toBe(ms)
    expect(termsOf({ within: 'PT9S', period }).periodMs).toBe(ms)
    expect(termsOf({ period }).periodMs).toBe(ms)
    const both = { period, period_ms: ms + 1 }
    expect(termsOf(both).periodMs).toBe(ms + 1)
    expect(uniqueEcho(both, { periodMs: 1_500 }).echo).toEqual({ period: 'PT1.5S' })
  })

  it.each(['use_existing', 'drop'])('treat the conflict strategy %s as ignore', (named) => {
    expect(termsOf({ on_conflict: named }).onConflict).toBe('ignore')
    expect(uniqueEcho({ on_conflict: named }, { periodMs: null }).extra).toEqual({
      on_conflict: named,
    })
    const unique = { on_conflict: named }
    expect(() => parsePush({ type: 'a', args: [], unique, options: { unique } })).not.toThrow()
  })

  it.each<[UniqueRequest, string]>([
    [{ keys: ['colour'] }, 'options.unique.keys'],
    [{ keys: ['meta'] }, 'options.unique.meta_keys'],
    [{ keys: ['meta'], meta_keys: [] }, 'options.unique.meta_keys'],
    [{ states: ['available', 'withdrawn'] }, 'options.unique.states'],
    [{ states: ['constructor'] }, 'options.unique.states'],
    [{ period: 'soon' }, 'options.unique.period'],
    [{ period: 'PT0S' }, 'options.unique.period'],
    [{ period: 0 }, 'options.unique.period'],
    [{ period: -1 }, 'options.unique.period'],
    [{ period: 1e12 }, 'options.unique.period'],
    [{ period_ms: 0 }, 'options.unique.period_ms'],
    [{ within: 0 }, 'options.unique.within'],
    [{ within: 'soon' }, 'options.unique.within'],
    [{ period: 1, period_ms: 1e12 }, 'options.unique.period_ms'],
    [{ key: ['type', 'meta'] }, 'options.unique.meta_keys'],
    [{ on_conflict: 'explode' }, 'options.unique.on_conflict'],
  ])('refuse %o', (policy, field) => {
    expect(fieldOf(policy)).toMatchObject({
      code: 'invalid_request',
      status: 400,
      details: { field },
    })
  })
})

describe("the unique policy in a job's document", () => {
  it.each<[UniqueRequest, object, object | undefined]>([
    [{}, {}, undefined],
    [
      { key: ['a'], period: 'PT1H', on_conflict: 'ignore', states: ['active'] },
      { key: ['a'], period: 'PT1H', on_conflict: 'ignore', states: ['active'] },
      undefined,
    ],
    [{ period: 90 }, { period: 'PT90S' }, undefined],
    [{ within: 'P1D' }, { period: 'P1D' }, undefined],
    [{ period: '90s' }, { period: 'PT90S' }, undefined],
    [
      { keys: ['type'], states: ['active', 'completed'], on_conflict: 'use_existing' },
      {},
      { keys: ['type'], states: ['active', 'completed'], on_conflict: 'use_existing' },
    ],
  ])("for %o is in seed 003's form, with the rest in unique_extra", (policy, echo, extra) => {
    expect(uniqueEcho(policy, termsOf(policy))).toEqual({ echo, extra })
  })

  it('contains all that a revived job needs', () => {
    const policy = fc.record(
      {
        keys: fc.subarray(['type', 'queue', 'args']),
        states: fc.subarray([...JOB_STATES], { minLength: 1 }),
        period: fc.oneof(fc.constantFrom('PT5M', 'P1D', '30s'), fc.integer({ min: 1, max: 9_999 })),
        on_conflict: fc.constantFrom('reject', 'ignore', 'replace_except_schedule', 'use_existing'),
      },
      { requiredKeys: [] },
    )
    fc.assert(
      fc.property(policy, (unique) => {
        const { key: _, ...terms } = termsOf(unique)
        const { echo, extra } = uniqueEcho(unique, terms)
        const envelope = JSON.stringify({ unique: echo, unique_extra: extra })
        expect(storedTerms(envelope)).toEqual(terms)
      }),
    )
  })
})

describe('a job that takes over the schedule of the one it replaces', () => {
  const old = { state: 'scheduled', dueAt: 5_000 } as const
  const at = '1970-01-01T00:00:05Z'

  it('has it in its state, its document and its headers', () => {
    const job = newJob({ envelope: '{"id":"x","__proto__":1,"args":[2]}', carry: { tags: ['t'] } })
    const moved = atTimeOf(jobRow({ ...old, envelope: `{"scheduled_at":"${at}"}` }), job)
    expect(moved.start).toEqual({ state: 'scheduled', dueAt: 5_000 })
    expect(moved.envelope).toBe(`{"id":"x","__proto__":1,"args":[2],"scheduled_at":"${at}"}`)
    expect(moved.carry).toEqual({ tags: ['t'], scheduledAt: at })
  })

  it('stays pending when it was pending', () => {
    const job = newJob({ start: { state: 'pending', dueAt: null } })
    expect(atTimeOf(jobRow(old), job).start).toEqual({ state: 'pending', dueAt: 5_000 })
  })

  it('does not change when the old job had no schedule', () => {
    const job = newJob()
    expect(atTimeOf(jobRow({ state: 'available', dueAt: null }), job)).toBe(job)
  })
})
