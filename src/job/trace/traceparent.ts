/** W3C Trace Context, level 1: which headers are valid and passed on, and the trace id for log lines. */

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

/** True for a valid `tracestate`. An invalid one is dropped, but the `traceparent` beside it is kept. */
export function isTracestate(text: string): boolean {
  if (text.length === 0 || text.length > MAX_TRACESTATE) return false
  const members = text
    .split(',')
    .map((member) => member.trim())
    .filter((member) => member !== '')
  if (members.length === 0 || members.length > MAX_MEMBERS) return false
  return members.every((member) => MEMBER.test(member))
}

/** The trace id, 32 hex digits; undefined for an invalid header, as a native client may send. */
export function traceIdOf(traceparent: string): string | undefined {
  return isTraceparent(traceparent) ? traceparent.slice(3, 35) : undefined
}
