import { describe, expect, it } from 'vitest'
import { classify, differenceIn } from '../../../src/broker/connection/channel-error.ts'

/** Errors as amqplib 2.3.1 words them; the brokers' own texts are from RabbitMQ 3.10.8. */
function closed(code: number, reason: string): Error {
  const text = `Operation failed: QueueDeclare; ${code} (X) with message "${reason}"`
  return Object.assign(new Error(text), { code })
}

describe('classify', () => {
  it('tells a missing queue from a queue whose home node is down', () => {
    const missing = closed(404, "NOT_FOUND - no queue 'q' in vhost '/'")
    expect(classify(missing).kind).toBe('not-found')
    expect(classify(closed(404, "NOT_FOUND - no exchange 'e' in vhost '/'")).kind).toBe('not-found')
    const text =
      "NOT_FOUND - home node 'a@b' of durable queue 'q' in vhost '/' is down or inaccessible"
    expect(classify(closed(404, text)).kind).toBe('home-node-down')
  })

  it('keeps the text of the broker', () => {
    expect(classify(closed(403, 'ACCESS_REFUSED - access to queue'))).toEqual({
      kind: 'access-refused',
      text: 'ACCESS_REFUSED - access to queue',
    })
    expect(classify(closed(405, 'RESOURCE_LOCKED')).kind).toBe('locked')
    expect(classify(closed(406, 'PRECONDITION_FAILED - x')).kind).toBe('differs')
  })

  it('tells a queue limit of the virtual host from a difference in arguments', () => {
    const text =
      "PRECONDITION_FAILED - cannot declare queue 'q': queue limit in vhost '/' (10) is reached"
    expect(classify(closed(406, text))).toEqual({ kind: 'limit-reached', text })
    const named =
      "PRECONDITION_FAILED - inequivalent arg 'durable' for queue ': q limit in q is reached' in …"
    expect(classify(closed(406, named)).kind).toBe('differs')
  })

  it('classifies an error without a reply code, as after a lost connection, as unavailable', () => {
    expect(classify(new Error('Channel closed')).kind).toBe('unavailable')
    expect(classify('?').kind).toBe('unavailable')
  })
})

describe('differenceIn', () => {
  it.each([
    [
      "inequivalent arg 'x-max-priority' for queue 'q' in vhost '/': received none but current is the value '10' of type 'signedint'",
      { argument: 'x-max-priority', expected: 'none', actual: '10' },
    ],
    [
      "inequivalent arg 'x-queue-type' for queue 'q' in vhost '/': received the value 'quorum' of type 'longstr' but current is the value 'classic' of type 'longstr'",
      { argument: 'x-queue-type', expected: 'quorum', actual: 'classic' },
    ],
    [
      "inequivalent arg 'durable' for queue 'q' in vhost '/': received 'true' but current is 'false'",
      { argument: 'durable', expected: 'true', actual: 'false' },
    ],
    [
      "invalid arg 'x-max-priority' for queue 'q' in vhost '/' of queue type rabbit_quorum_queue",
      null,
    ],
  ])('finds the argument that differs, if any, in: %s', (text, expected) => {
    expect(differenceIn(`PRECONDITION_FAILED - ${text}`)).toEqual(expected)
  })
})
