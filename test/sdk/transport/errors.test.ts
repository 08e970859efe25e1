import { describe, expect, test } from 'vitest'
import {
  OJSAuthenticationError,
  OJSBackendError,
  OJSConflictError,
  OJSDuplicateError,
  OJSError,
  OJSNotFoundError,
  OJSPermissionError,
  OJSQueuePausedError,
  OJSRateLimitError,
  OJSTransportError,
  OJSUnsupportedError,
  OJSValidationError,
} from '../../../src/sdk/index.ts'
import { errorOfAnswer } from '../../../src/sdk/transport/errors.ts'

describe('errorOfAnswer', () => {
  test.each([
    // The vocabulary of seed 001 §16.3.
    ['invalid_payload', 400, OJSValidationError, false],
    ['invalid_request', 400, OJSValidationError, false],
    ['invalid_request', 409, OJSConflictError, false],
    ['not_found', 404, OJSNotFoundError, false],
    ['backend_error', 500, OJSBackendError, true],
    ['backend_error', 503, OJSBackendError, true],
    ['rate_limited', 429, OJSRateLimitError, true],
    ['duplicate', 409, OJSDuplicateError, false],
    ['queue_paused', 422, OJSQueuePausedError, true],
    ['schema_validation', 400, OJSValidationError, false],
    ['unsupported', 422, OJSUnsupportedError, false],
    // Seed 004's table has two more.
    ['invalid_state_transition', 409, OJSConflictError, false],
    ['internal_error', 500, OJSBackendError, true],
    // Other servers (OJS errors).
    ['DUPLICATE_JOB', 409, OJSDuplicateError, false],
    ['UNAUTHENTICATED', 401, OJSAuthenticationError, false],
    ['PERMISSION_DENIED', 403, OJSPermissionError, false],
    ['PAYLOAD_TOO_LARGE', 413, OJSValidationError, false],
    ['BACKEND_UNAVAILABLE', 503, OJSBackendError, true],
    ['QUEUE_FULL', 429, OJSRateLimitError, true],
  ])('maps %s with status %i to its class', (code, status, expected, retryable) => {
    const error = errorOfAnswer({ status, body: { error: { code, message: 'm' } } })
    expect(error).toBeInstanceOf(OJSError)
    expect(error?.constructor).toBe(expected)
    expect(error).toMatchObject({ name: expected.name, code, message: 'm', status, retryable })
  })

  test('takes the code as message if the answer has none', () => {
    const body = { error: { code: 'backend_error' } }
    expect(errorOfAnswer({ status: 503, body })?.message).toBe('backend_error')
  })

  test.each([
    [404, OJSNotFoundError],
    [409, OJSConflictError],
    [503, OJSBackendError],
    [418, OJSError],
  ])('maps an unknown code by its status %i, and never as retryable', (status, expected) => {
    const body = { error: { code: 'x_new', message: 'm', retryable: true } }
    const error = errorOfAnswer({ status, body })
    expect(error?.constructor).toBe(expected)
    expect(error).toMatchObject({ code: 'x_new', retryable: false })
  })

  test("takes retryable from the server's answer for a known code", () => {
    const body = { error: { code: 'backend_error', message: 'm', retryable: false } }
    expect(errorOfAnswer({ status: 500, body })?.retryable).toBe(false)
  })
})

describe('OJS errors', () => {
  test('have no cause, and defaults, for members that are given as undefined', () => {
    const answer: { status?: number; requestId?: string; retryAfter?: number } = {}
    const { status, requestId, retryAfter } = answer
    const told = { status, requestId, retryAfter, attempts: undefined, cause: undefined }
    expect(new OJSError({ code: 'backend_error', message: 'x', ...told })).toMatchObject({
      status: undefined,
      attempts: 1,
    })
    const error = new OJSTransportError('x', { kind: 'network', ...told })
    expect(error).toMatchObject({ status: undefined, attempts: 1 })
    expect(Object.hasOwn(error, 'cause')).toBe(false)
  })

  test('carry existingJobId of a duplicate', () => {
    const error = errorOfAnswer({
      status: 409,
      body: { error: { code: 'duplicate', message: 'm', details: { existing_job_id: 'a' } } },
    })
    expect(error).toMatchObject({ existingJobId: 'a' })
  })

  test('include the message in their JSON form', () => {
    const error = errorOfAnswer({
      status: 404,
      body: { error: { code: 'not_found', message: 'No such job.', details: { job_id: 'a' } } },
    })
    expect(JSON.parse(JSON.stringify(error))).toEqual({
      name: 'OJSNotFoundError',
      message: 'No such job.',
      code: 'not_found',
      retryable: false,
      details: { job_id: 'a' },
      status: 404,
      attempts: 1,
    })
    const lost = new OJSTransportError('lost', { kind: 'network' })
    expect(JSON.parse(JSON.stringify(lost))).toMatchObject({ message: 'lost', kind: 'network' })
  })

  test('carry the request id of the body, else of the header', () => {
    const headers = { 'x-request-id': 'header' }
    const error = { code: 'not_found', message: 'm' }
    expect(errorOfAnswer({ body: { error }, headers })?.requestId).toBe('header')
    expect(
      errorOfAnswer({ body: { error: { ...error, request_id: 'body' } }, headers })?.requestId,
    ).toBe('body')
  })

  test('carry retryAfter of the header, else of the details', () => {
    const error = {
      code: 'rate_limited',
      message: 'm',
      details: { retry_after_seconds: 60 },
    }
    expect(errorOfAnswer({ body: { error } })?.retryAfter).toBe(60)
    const headers = { 'retry-after': '1.5' }
    expect(errorOfAnswer({ body: { error }, headers })?.retryAfter).toBe(1.5)
    expect(errorOfAnswer({ body: { error }, headers: { 'retry-after': 'soon' } })?.retryAfter).toBe(
      60,
    )
  })

  test.each([[{}], [{ error: 'text' }], [{ error: {} }], [{ error: { code: 1 } }], [null], ['x']])(
    'are not made of the body %j',
    (body) => {
      expect(errorOfAnswer({ status: 500, body })).toBeUndefined()
    },
  )
})
