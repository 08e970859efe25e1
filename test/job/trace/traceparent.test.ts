import { describe, expect, test } from 'vitest'
import { isTraceparent, isTracestate, traceIdOf } from '../../../src/job/trace/traceparent.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const PARENT = 'b7ad6b7169203331'
const VALID = `00-${TRACE}-${PARENT}-01`

describe('traceparent', () => {
  test.each([
    ['sampled', VALID],
    ['not sampled', `00-${TRACE}-${PARENT}-00`],
    ['unknown flags', `00-${TRACE}-${PARENT}-ff`],
    ['a later version', `01-${TRACE}-${PARENT}-01`],
    ['a later version with more fields', `cc-${TRACE}-${PARENT}-01-what-comes`],
  ])('is accepted: %s', (_name, text) => {
    expect(isTraceparent(text)).toBe(true)
    expect(traceIdOf(text)).toBe(TRACE)
  })

  test.each([
    ['empty', ''],
    ['upper case', VALID.toUpperCase()],
    ['version ff', `ff-${TRACE}-${PARENT}-01`],
    ['an all-zero trace id', `00-${'0'.repeat(32)}-${PARENT}-01`],
    ['an all-zero parent id', `00-${TRACE}-${'0'.repeat(16)}-01`],
    ['version 00 with more fields', `${VALID}-x`],
    ['a later version without a dash', `01-${TRACE}-${PARENT}-01x`],
    ['a short trace id', `00-${TRACE.slice(1)}-${PARENT}-01`],
    ['a long parent id', `00-${TRACE}-${PARENT}0-01`],
    ['no flags', `00-${TRACE}-${PARENT}`],
    ['two values', `${VALID}, ${VALID}`],
    ['a trailing line feed', `${VALID}\n`],
    ['too long', `cc-${TRACE}-${PARENT}-01-${'x'.repeat(300)}`],
  ])('is ignored: %s', (_name, text) => {
    expect(isTraceparent(text)).toBe(false)
    expect(traceIdOf(text)).toBe(undefined)
  })
})

describe('tracestate', () => {
  test.each([
    'a=1',
    'rojo=00f067aa0ba902b7,congo=t61rcWkgMzE',
    'tenant@vendor=x, b=2 , ,c=3',
    `a=${'v'.repeat(256)}`,
    Array.from({ length: 32 }, (_, i) => `k${i}=v`).join(','),
  ])('is accepted: %s', (text) => {
    expect(isTracestate(text)).toBe(true)
  })

  test.each([
    '',
    ',',
    'a',
    '=1',
    'a=',
    'A=1',
    'a=b=c',
    'a=\u00fc',
    `a=${'v'.repeat(257)}`,
    Array.from({ length: 33 }, (_, i) => `k${i}=v`).join(','),
    Array.from({ length: 20 }, (_, i) => `k${i}=${'v'.repeat(30)}`).join(','),
  ])('is ignored: %s', (text) => {
    expect(isTracestate(text)).toBe(false)
  })
})
