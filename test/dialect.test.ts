import { describe, expect, it } from 'vitest'
import { readConfig } from '../src/config/config.ts'
import {
  DIALECTS,
  type Dialect,
  queueMember,
  requireTypeCase,
  stateConflictCode,
  takesJobsWhilePaused,
} from '../src/dialect.ts'
import { OjsError } from '../src/errors.ts'

describe('dialects', () => {
  it('are seed, the default, and conformance', () => {
    expect(DIALECTS).toEqual(['seed', 'conformance'])
    expect(readConfig({}).config.dialect).toBe('seed')
    expect(readConfig({ OJS_DIALECT: 'conformance' }).config.dialect).toBe('conformance')
    expect(() => readConfig({ OJS_DIALECT: 'public' })).toThrow('OJS_DIALECT')
  })

  const facts = { paused: true, available: 3 }
  it.each<[Dialect, object]>([
    ['seed', { t1: 'invalid_request', t2: 'email', t3: false }],
    ['conformance', { t1: 'conflict', t2: { name: 'email', ...facts }, t3: true }],
  ])('%s: T1 to T3', (dialect, expected) => {
    expect({
      t1: stateConflictCode(dialect),
      t2: queueMember(dialect, 'email', facts),
      t3: takesJobsWhilePaused(dialect),
    }).toEqual(expected)
  })

  it.each<[Dialect, string, boolean]>([
    ['seed', 'email.send', true],
    ['seed', 'Email.Send', true],
    ['conformance', 'email.send-2_b', true],
    ['conformance', 'Email.send', false],
    ['conformance', 'email.senD', false],
  ])('%s: T4, %s is a type: %s', (dialect, type, isType) => {
    const check = () => requireTypeCase(dialect, type)
    if (isType) expect(check).not.toThrow()
    else expect(check).toThrow(OjsError)
  })
})
