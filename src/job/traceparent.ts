/**
 * W3C Trace Context, level 1, as far as a broker between two programs needs it: tell a usable
 * header from noise, pass it on unchanged, and know the trace id for log lines (seed 002 §12.2).
 */

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/
const MAX_TRACEPARENT = 256
const NO_TRACE = '0'.repeat(32)
const NO_PARENT = '0'.repeat(16)

/** True for version 00, and for later versions as far as level 1 can read them. */
export function isTraceparent(text: string): boolean {
  if (text.length > MAX_TRACEPARENT) return false
  const [, version, traceId, parentId, rest] = TRACEPARENT.exec(text) ?? []
  if (version === undefined || version === 'ff') return false
  if (traceId === NO_TRACE || parentId === NO_PARENT) return false
  return version !== '00' || rest === undefined
}

const MAX_TRACESTATE = 512
const MAX_MEMBERS = 32
const MEMBER = /^[a-z0-9][a-z0-9_\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{1,256}$/

/** An unusable `tracestate` is dropped; it says nothing about the `traceparent` beside it. */
export function isTracestate(text: string): boolean {
  if (text.length === 0 || text.length > MAX_TRACESTATE) return false
  const members = text
    .split(',')
    .map((member) => member.trim())
    .filter((member) => member !== '')
  if (members.length === 0 || members.length > MAX_MEMBERS) return false
  return members.every((member) => MEMBER.test(member))
}

/** The 32 hex digits that name the trace; undefined: a native client's header may say anything. */
export function traceIdOf(traceparent: string): string | undefined {
  return isTraceparent(traceparent) ? traceparent.slice(3, 35) : undefined
}
