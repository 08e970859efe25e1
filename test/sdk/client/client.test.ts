import { inspect } from 'node:util'
import { describe, expect, test, vi } from 'vitest'
import {
  Client,
  type Fetch,
  HttpTransport,
  type JobSpec,
  OJSClient,
  OJSConflictError,
  OJSDuplicateError,
  OJSError,
  OJSNotFoundError,
  OJSTransportError,
  OJSValidationError,
  type Transport,
} from '../../../src/sdk/index.ts'
import { answered, mockTransport, stored } from '../mock-transport.ts'

const UUID7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

describe('OJSClient constructor', () => {
  test('has the alias Client', () => {
    expect(Client).toBe(OJSClient)
  })

  test.each(['amqp://guest:s3cr3t@localhost', 'amqps://guest:s3cr3t@host/vhost', ' AMQP://h'])(
    'throws for %s: the message names NativeProducer and hides the password',
    (url) => {
      for (const transport of [undefined, mockTransport([])]) {
        let thrown: unknown
        try {
          new OJSClient({ url, ...(transport && { transport }) })
        } catch (error) {
          thrown = error
        }
        expect(thrown).toBeInstanceOf(TypeError)
        expect(String(thrown)).toContain("import { NativeProducer } from 'ojs-rabbitmq/worker'")
        expect(inspect(thrown)).not.toContain('s3cr3t')
      }
    },
  )

  test('makes an HTTP transport with the given fetch and auth from a URL', async () => {
    const fetch = vi.fn(async () => ({
      status: 200,
      headers: new Headers(),
      text: async () => '{"job":{"id":"1"}}',
    }))
    const client = new OJSClient({ url: 'http://h', auth: 't', fetch })
    expect(await client.getJob('1')).toEqual({ id: '1' })
    expect(fetch).toHaveBeenCalledWith(
      'http://h/ojs/v1/jobs/1',
      expect.objectContaining({ headers: expect.objectContaining({ authorization: 'Bearer t' }) }),
    )
  })
})

describe('OJSClient treats these options as absent if they are undefined:', () => {
  const maybe = (): Transport | undefined => undefined
  const refusing = vi.fn<Fetch>(async () => ({
    status: 503,
    headers: new Headers(),
    text: async () => '{"error":{"code":"backend_error","message":"m"}}',
  }))

  test('transport', async () => {
    const client = new OJSClient({
      url: 'http://h',
      transport: maybe(),
      fetch: refusing,
      retry: false,
    })
    await expect(client.getJob('1')).rejects.toMatchObject({ code: 'backend_error' })
  })

  test('transport and url', () => {
    const given = { transport: maybe() } as { transport: Transport }
    expect(() => new OJSClient(given)).toThrow('A client needs a url or a transport.')
  })

  test('maxAttempts', async () => {
    refusing.mockClear()
    const retry = { maxAttempts: undefined, initialDelay: 0, maxDelay: 0 }
    const client = new OJSClient({ url: 'http://h', fetch: refusing, retry })
    await expect(client.getJob('1')).rejects.toMatchObject({ attempts: 5 })
    expect(refusing).toHaveBeenCalledTimes(5)
  })

  test('signal, timeout and headers of a call', async () => {
    refusing.mockClear()
    const client = new OJSClient({
      url: 'http://h',
      fetch: refusing,
      retry: false,
      timeout: undefined,
    })
    const headers = { 'x-tenant': undefined } as unknown as Record<string, string>
    const call = { signal: undefined, timeout: undefined, headers }
    await expect(client.getJob('1', call)).rejects.toMatchObject({ code: 'backend_error' })
    const [[, init] = []] = refusing.mock.calls
    expect(Object.keys(init?.headers ?? {})).toEqual(['accept'])
  })
})

describe('OJSClient.enqueue', () => {
  const accepting = () =>
    mockTransport((request) => ({ status: 201, body: { job: stored(request) } }))

  test('posts only type, args and a generated UUIDv7 id', async () => {
    const transport = accepting()
    const job = await new OJSClient({ transport }).enqueue('email.send', ['a@b.c', 1])
    expect(transport.only).toEqual({
      method: 'POST',
      path: '/jobs',
      body: { id: expect.stringMatching(UUID7), type: 'email.send', args: ['a@b.c', 1] },
      idempotent: true,
    })
    expect(job).toMatchObject({ type: 'email.send', state: 'available', args: ['a@b.c', 1] })
  })

  test.each([
    ['an object', { to: 'a' }, [{ to: 'a' }]],
    ['a text', 'a', ['a']],
    ['null', null, [null]],
    ['0', 0, [0]],
    ['nothing', undefined, []],
    ['an empty array', [], []],
    ['an array in an array', [[1]], [[1]]],
  ])('sends args as an array when given %s', async (_what, args, expected) => {
    const transport = accepting()
    await new OJSClient({ transport }).enqueue('t', args)
    expect(transport.only.body).toMatchObject({ args: expected })
  })

  test('converts every option from camelCase to snake_case and puts it in its place', async () => {
    const transport = accepting()
    const delayUntil = new Date('2030-01-02T03:04:05.006Z')
    const meta = { camelCase: { stays: 1 }, traceparent: '00-x' }
    await new OJSClient({ transport }).enqueue('t', [], {
      id: '019414d4-8b2e-7c3a-b5d1-f0e2a3b4c5d6',
      meta,
      schema: 'urn:ojs:schema:t:v1',
      queue: 'email',
      priority: 5,
      tags: ['a'],
      pending: true,
      delayUntil,
      expiresAt: '2031-01-01T00:00:00Z',
      timeoutMs: 1_000,
      visibilityTimeoutMs: 2_000,
      retry: {
        maxAttempts: 4,
        initialIntervalMs: 10,
        maxIntervalMs: 20,
        backoffCoefficient: 1.5,
        backoffStrategy: 'linear',
        jitter: false,
        nonRetryableErrors: ['auth.*'],
        onExhaustion: 'dead_letter',
      },
      unique: { keys: ['type', 'args'], argsKeys: ['0'], period: 'PT1H', onConflict: 'ignore' },
      rateLimit: { maxPerSecond: 5, key: 'a' },
      concurrency: { key: 'Some Key', limit: 2 },
    })
    expect(transport.only.body).toEqual({
      id: '019414d4-8b2e-7c3a-b5d1-f0e2a3b4c5d6',
      type: 't',
      args: [],
      meta,
      schema: 'urn:ojs:schema:t:v1',
      options: {
        queue: 'email',
        priority: 5,
        tags: ['a'],
        pending: true,
        delay_until: '2030-01-02T03:04:05.006Z',
        expires_at: '2031-01-01T00:00:00Z',
        timeout_ms: 1_000,
        visibility_timeout_ms: 2_000,
        retry: {
          max_attempts: 4,
          initial_interval_ms: 10,
          max_interval_ms: 20,
          backoff_coefficient: 1.5,
          backoff_strategy: 'linear',
          jitter: false,
          non_retryable_errors: ['auth.*'],
          on_exhaustion: 'dead_letter',
        },
        unique: {
          keys: ['type', 'args'],
          args_keys: ['0'],
          period: 'PT1H',
          on_conflict: 'ignore',
        },
        rate_limit: { max_per_second: 5, key: 'a' },
        concurrency: { key: 'Some Key', limit: 2 },
      },
    })
  })

  describe('with an Idempotency-Key', () => {
    const call = { headers: { 'idempotency-KEY': 'k1' } }

    test('sends no generated id, so that the same call has the same body', async () => {
      const transport = mockTransport((request) => {
        const { jobs } = request.body as { jobs?: object[] }
        const job = stored(request, { id: 'of the server' })
        return { status: 201, body: jobs ? { jobs: jobs.map(() => job) } : { job } }
      })
      const client = new OJSClient({ transport })
      let seen: string | undefined
      client.use((request, next) => {
        seen = request.id
        return next()
      })
      expect(await client.enqueue('t', [1], {}, call)).toMatchObject({ id: 'of the server' })
      await client.enqueue('t', [1], { queue: 'q' }, call)
      await client.enqueueBatch([{ type: 't' }, { type: 't', id: 'own' }], call)
      expect(transport.requests.map(({ body }) => body)).toEqual([
        { type: 't', args: [1] },
        { type: 't', args: [1], options: { queue: 'q' } },
        {
          jobs: [
            { type: 't', args: [] },
            { id: 'own', type: 't', args: [] },
          ],
        },
      ])
      expect(transport.requests[0]).toMatchObject({ idempotent: true, headers: call.headers })
      expect(seen).toBe('own')
    })

    test('rejects a batch on a conflict, because without ids it cannot know its own jobs', async () => {
      const error = { code: 'duplicate', message: 'taken', details: { existing_job_id: 'own' } }
      const transport = mockTransport(() => ({ status: 409, body: { error } }))
      const jobs = [{ type: 't' }, { type: 't', id: 'own' }]
      const batch = new OJSClient({ transport }).enqueueBatch(jobs, call)
      await expect(batch).rejects.toMatchObject({ code: 'duplicate', existingJobId: 'own' })
      expect(transport.requests).toHaveLength(1)
    })

    test('sends an id that middleware has chosen', async () => {
      const transport = accepting()
      const client = new OJSClient({ transport })
      client.use((request, next) => next({ ...request, id: 'of the middleware' }))
      await client.enqueue('t', [], {}, call)
      expect(transport.only.body).toEqual({ id: 'of the middleware', type: 't', args: [] })
    })
  })

  test('marks existing jobs as deduplicated, alone and in a batch', async () => {
    const transport = mockTransport((request) => {
      const { jobs } = request.body as { jobs?: object[] }
      const one = { id: '1', type: 't' }
      return jobs
        ? { status: 201, body: { jobs: jobs.map(() => one), deduplicated: [1] } }
        : { status: 200, body: { job: one, deduplicated: true } }
    })
    const client = new OJSClient({ transport })
    expect((await client.enqueue('t')).deduplicated).toBe(true)
    const batch = await client.enqueueBatch([{ type: 't' }, { type: 't' }, { type: 't' }])
    expect(batch.map(({ deduplicated }) => deduplicated)).toEqual([undefined, true, undefined])
  })

  test('accepts options in snake_case, but not in both spellings at once', async () => {
    const transport = accepting()
    const client = new OJSClient({ transport })
    await client.enqueue('t', [], { delay_until: '2030-01-01T00:00:00Z', timeout_ms: 5 })
    expect(transport.only.body).toMatchObject({
      options: { delay_until: '2030-01-01T00:00:00Z', timeout_ms: 5 },
    })
    await client.enqueue('t', [], { scheduledAt: new Date(0) })
    expect(transport.requests[1]?.body).toMatchObject({
      options: { scheduled_at: '1970-01-01T00:00:00.000Z' },
    })
    await expect(client.enqueue('t', [], { timeout_ms: 5, timeoutMs: 6 })).rejects.toThrow(
      /'timeout_ms' is given in two spellings/,
    )
  })

  test('is a compile-time error for an unknown member or value of a policy', async () => {
    const client = new OJSClient({ transport: accepting() })
    await client.enqueue('t', [], { retry: { max_attempts: 2 }, unique: { key: ['id'] } })
    // @ts-expect-error the gateway would refuse it
    await client.enqueue('t', [], { retry: { maxAttemps: 2 } })
    // @ts-expect-error there is no such way to go on
    await client.enqueue('t', [], { unique: { onConflict: 'skip' } })
    // @ts-expect-error a number is wanted
    await client.enqueue('t', [], { rateLimit: { maxPerSecond: '5' } })
  })

  test('rejects an invalid Date and sends nothing', async () => {
    const transport = accepting()
    const enqueued = new OJSClient({ transport }).enqueue('t', [], { delayUntil: new Date('no') })
    await expect(enqueued).rejects.toThrow(new TypeError("'delay_until' must be a valid date."))
    expect(transport.requests).toEqual([])
  })

  test.each(['id', 'meta', 'schema'] as const)(
    'accepts %s beside options or in them, but not both',
    async (name) => {
      const transport = accepting()
      const value = { id: '019414d4-8b2e-7c3a-b5d1-f0e2a3b4c5d6', meta: { a: 1 }, schema: 'urn:s' }[
        name
      ]
      const client = new OJSClient({ transport })
      await client.enqueueBatch([{ type: 't', [name]: value }]).catch(() => {})
      await client.enqueueBatch([{ type: 't', options: { [name]: value } }]).catch(() => {})
      const sent = { jobs: [expect.objectContaining({ type: 't', [name]: value })] }
      expect(transport.requests.map(({ body }) => body)).toEqual([sent, sent])
      const both = { type: 't', [name]: value, options: { [name]: value } }
      const refused = client.enqueueBatch([both])
      await expect(refused).rejects.toThrow(
        new TypeError(`'${name}' is given both in the job and in its options.`),
      )
    },
  )

  test('refuses an unknown member of a job, unless it is undefined', async () => {
    const transport = accepting()
    const client = new OJSClient({ transport })
    const lost = client.enqueueBatch([{ type: 't', queue: 'email' } as JobSpec])
    await expect(lost).rejects.toThrow(TypeError)
    await expect(lost).rejects.toThrow("'queue' is not a member of a job")
    expect(transport.requests).toEqual([])
    await client.enqueueBatch([{ type: 't', queue: undefined } as JobSpec]).catch(() => {})
    expect(transport.requests).toHaveLength(1)
  })

  test('passes signal, timeout and headers to the transport', async () => {
    const transport = accepting()
    const { signal } = new AbortController()
    const call = { signal, timeout: 5, headers: { traceparent: '00-1' } }
    await new OJSClient({ transport }).enqueue('t', [], {}, call)
    expect(transport.only).toMatchObject(call)
    expect(transport.only.signal).toBe(signal)
  })

  test('works with a transport that answers only status and body', async () => {
    const bare: Transport = {
      async request({ method, path }) {
        return { status: 201, body: { job: { id: 'test-id', method, path } } }
      },
    }
    expect((await new OJSClient({ transport: bare }).enqueue('t')).id).toBe('test-id')
  })

  test('rejects with the error, whether the transport throws it or answers it', async () => {
    const error = {
      code: 'invalid_request',
      message: "The 'args' field must be a JSON array.",
      retryable: false,
      details: { field: 'args' },
      request_id: 'req_1',
    }
    const transport = mockTransport([answered(error, 400)])
    const thrown = await new OJSClient({ transport }).enqueue('t').catch((e: unknown) => e)
    expect(thrown).toBeInstanceOf(OJSValidationError)
    expect(thrown).toMatchObject({ requestId: 'req_1', status: 400, details: { field: 'args' } })
    const failing = mockTransport([new OJSTransportError('lost', { kind: 'network' })])
    await expect(new OJSClient({ transport: failing }).enqueue('t')).rejects.toMatchObject({
      name: 'OJSTransportError',
      kind: 'network',
    })
  })

  test.each([
    [500, 'oops'],
    [404, {}],
    [201, {}],
    [201, { job: null }],
    [201, null],
  ])('rejects with OJSTransportError for status %i with body %j', async (status, body) => {
    const transport = mockTransport([{ status, body }])
    const thrown = await new OJSClient({ transport }).enqueue('t').catch((e: unknown) => e)
    expect(thrown).toBeInstanceOf(OJSTransportError)
    expect(thrown).not.toBeInstanceOf(OJSError)
  })
})

describe('OJSClient after an answer that was lost', () => {
  const duplicateOf = (id: unknown) =>
    answered({ code: 'duplicate', message: 'exists', details: { existing_job_id: id } }, 409)

  test("resolves enqueue with the stored job if the duplicate error names the request's own id", async () => {
    const transport = mockTransport((request) => {
      const id = idOf(transport.requests[0])
      return request.method === 'POST'
        ? duplicateOf(id)
        : { status: 200, body: { job: { id, type: 'email.send', state: 'active' } } }
    })
    const job = await new OJSClient({ transport }).enqueue('email.send', ['x'])
    expect(job).toEqual({ id: idOf(transport.requests[0]), type: 'email.send', state: 'active' })
    expect(transport.requests.map(({ method, path }) => `${method} ${path}`)).toEqual([
      'POST /jobs',
      `GET /jobs/${job.id}`,
    ])
  })

  test('resolves enqueue over HTTP if the first answer is lost and the second is a duplicate error', async () => {
    const bodies: string[] = []
    const fetch = async (_url: string, init: { method: string; body?: string }) => {
      if (init.method === 'POST') bodies.push(init.body ?? '')
      if (bodies.length === 1) throw new TypeError('fetch failed')
      const { id } = JSON.parse(bodies[0] ?? '')
      const error = { code: 'duplicate', message: 'exists', details: { existing_job_id: id } }
      const [status, body] =
        init.method === 'POST' ? [409, { error }] : [200, { job: { id, type: 't' } }]
      return { status, headers: new Headers(), text: async () => JSON.stringify(body) }
    }
    const transport = new HttpTransport({ url: 'http://h', fetch, retry: { initialDelay: 1 } })
    const job = await new OJSClient({ transport }).enqueue('t')
    expect(bodies).toHaveLength(2)
    expect(bodies[1]).toBe(bodies[0])
    expect(job.id).toBe(JSON.parse(bodies[0] ?? '').id)
  })

  test('rejects enqueue for a duplicate of another job, with its id', async () => {
    const transport = mockTransport([duplicateOf('another')])
    const thrown = await new OJSClient({ transport }).enqueue('t').catch((e: unknown) => e)
    expect(thrown).toBeInstanceOf(OJSDuplicateError)
    expect(thrown).toMatchObject({ existingJobId: 'another' })
  })

  test('rejects enqueue if the job with its id has another type', async () => {
    const id = '019414d4-8b2e-7c3a-b5d1-f0e2a3b4c5d6'
    const transport = mockTransport([
      duplicateOf(id),
      { status: 200, body: { job: { id, type: 'other' } } },
    ])
    await expect(new OJSClient({ transport }).enqueue('t', [], { id })).rejects.toBeInstanceOf(
      OJSDuplicateError,
    )
  })

  test('rejects with the error of the GET if the stored job cannot be read', async () => {
    const id = '019414d4-8b2e-7c3a-b5d1-f0e2a3b4c5d6'
    const lost = new OJSTransportError('lost', { kind: 'network' })
    const transport = mockTransport([duplicateOf(id), lost])
    await expect(new OJSClient({ transport }).enqueue('t', [], { id })).rejects.toBe(lost)
  })

  test('resolves enqueueBatch with all stored jobs in order', async () => {
    const transport = mockTransport(({ method, path }) => {
      const sent = transport.requests[0]?.body as { jobs: { id: string }[] }
      const id = path.slice('/jobs/'.length)
      return method === 'POST'
        ? duplicateOf(sent.jobs[1]?.id)
        : { status: 200, body: { job: { id, type: 't' } } }
    })
    const specs: JobSpec[] = Array.from({ length: 20 }, () => ({ type: 't' }))
    const jobs = await new OJSClient({ transport }).enqueueBatch(specs)
    const sent = transport.requests[0]?.body as { jobs: { id: string }[] }
    expect(jobs.map(({ id }) => id)).toEqual(sent.jobs.map(({ id }) => id))
  })

  test('rejects enqueueBatch if only some of its ids exist', async () => {
    const id = '019414d4-8b2e-7c3a-b5d1-f0e2a3b4c5d6'
    const transport = mockTransport(({ method, path }) => {
      if (method === 'POST') return duplicateOf(id)
      return path.endsWith(id)
        ? { status: 200, body: { job: { id, type: 't' } } }
        : answered({ code: 'not_found', message: 'no' }, 404)
    })
    const jobs = [{ type: 't', options: { id } }, { type: 't' }]
    await expect(new OJSClient({ transport }).enqueueBatch(jobs)).rejects.toBeInstanceOf(
      OJSDuplicateError,
    )
  })

  test('resolves cancelJob if an earlier try cancelled the job, and rejects if the first try finds it cancelled', async () => {
    const conflict = (attempts: number) =>
      new OJSConflictError({
        code: 'invalid_request',
        message: 'terminal',
        details: { current_state: 'cancelled' },
        attempts,
      })
    const read = { status: 200, body: { job: { id: '1', state: 'cancelled' } } }
    const repeated = mockTransport([conflict(2), read])
    expect(await new OJSClient({ transport: repeated }).cancelJob('1')).toMatchObject({
      state: 'cancelled',
    })
    const first = mockTransport([conflict(1), read])
    await expect(new OJSClient({ transport: first }).cancelJob('1')).rejects.toBeInstanceOf(
      OJSConflictError,
    )
  })
})

describe('OJSClient.enqueueBatch', () => {
  test('sends one request with an id for every job, and returns the jobs in order', async () => {
    const transport = mockTransport(({ body }) => {
      const { jobs } = body as { jobs: { type: string }[] }
      return { status: 201, body: { jobs: jobs.map((job) => ({ ...job, state: 'available' })) } }
    })
    const jobs = await new OJSClient({ transport }).enqueueBatch([
      { type: 'a', args: { one: 1 } },
      { type: 'b', options: { queue: 'q', delayUntil: '2030-01-01T00:00:00Z' } },
    ])
    expect(transport.only).toMatchObject({
      method: 'POST',
      path: '/jobs/batch',
      idempotent: true,
      body: {
        jobs: [
          { id: expect.stringMatching(UUID7), type: 'a', args: [{ one: 1 }] },
          { type: 'b', args: [], options: { queue: 'q', delay_until: '2030-01-01T00:00:00Z' } },
        ],
      },
    })
    expect(jobs.map(({ type }) => type)).toEqual(['a', 'b'])
    expect(new Set(jobs.map(({ id }) => id)).size).toBe(2)
  })

  test('sends nothing for an empty list', async () => {
    const transport = mockTransport([])
    expect(await new OJSClient({ transport }).enqueueBatch([])).toEqual([])
    expect(transport.requests).toEqual([])
  })

  test('rejects with the index of the job that the server refuses', async () => {
    const error = { code: 'invalid_request', message: 'm', details: { index: 1 } }
    const transport = mockTransport([answered(error, 400)])
    const thrown = await new OJSClient({ transport })
      .enqueueBatch([{ type: 'a' }, { type: '' }])
      .catch((e: unknown) => e)
    expect(thrown).toMatchObject({ name: 'OJSValidationError', details: { index: 1 } })
  })

  describe('whose answer was lost, with a job that its unique policy dropped for an existing one', () => {
    const resolvingBy = (onConflict: 'ignore' | 'use_existing' | 'drop') => ({
      unique: { onConflict },
    })
    const ignoring = resolvingBy('ignore')
    const server = (isThere: (id: string) => boolean) => {
      const transport = mockTransport(({ method, path, body }) => {
        const sent = transport.requests[0]?.body as { jobs: { id: string }[] }
        const stored = sent.jobs.find(({ id }) => isThere(id))?.id
        const id = path.slice('/jobs/'.length)
        const details = { existing_job_id: stored ?? sent.jobs[0]?.id }
        if (path === '/jobs/batch')
          return answered({ code: 'duplicate', message: 'exists', details }, 409)
        if (method === 'POST')
          return { status: 200, body: { job: { id: 'other', type: 't', of: idOf({ body }) } } }
        return isThere(id)
          ? { status: 200, body: { job: { id, type: 't' } } }
          : answered({ code: 'not_found', message: 'no' }, 404)
      })
      return transport
    }
    const idAt = (transport: ReturnType<typeof server>, place: number) => {
      const sent = transport.requests[0]?.body as { jobs: { id: string }[] }
      return idOf({ body: sent.jobs[place] })
    }

    test.each(['ignore', 'use_existing', 'drop'] as const)(
      'resolves, and finds that job by a PUSH of its own (%s)',
      async (onConflict) => {
        const transport = server((id) => id !== idAt(transport, 1))
        const jobs = await new OJSClient({ transport }).enqueueBatch([
          { type: 't' },
          { type: 't', options: resolvingBy(onConflict) },
          { type: 't' },
        ])
        expect(jobs).toMatchObject([
          { id: idAt(transport, 0) },
          { id: 'other', of: idAt(transport, 1) },
          { id: idAt(transport, 2) },
        ])
        const pushed = transport.requests.filter(({ path }) => path === '/jobs')
        expect(pushed).toMatchObject([
          { body: { id: idAt(transport, 1), options: expect.anything() } },
        ])
      },
    )

    test('rejects, and enqueues nothing, if another job of the batch is missing', async () => {
      const transport = server((id) => id === idAt(transport, 0))
      await expect(
        new OJSClient({ transport }).enqueueBatch([
          { type: 't' },
          { type: 't', options: ignoring },
          { type: 't' },
        ]),
      ).rejects.toBeInstanceOf(OJSDuplicateError)
      expect(transport.requests.filter(({ path }) => path === '/jobs')).toEqual([])
    })
  })

  test('rejects if the answer has fewer jobs than the request', async () => {
    const transport = mockTransport([{ status: 201, body: { jobs: [] } }])
    await expect(new OJSClient({ transport }).enqueueBatch([{ type: 'a' }])).rejects.toThrow(
      /fewer jobs/,
    )
  })
})

describe('OJSClient with a single job', () => {
  test.each([
    ['getJob', 'GET', '/jobs/a%2Fb'],
    ['cancelJob', 'DELETE', '/jobs/a%2Fb'],
    ['activateJob', 'POST', '/jobs/a%2Fb/activate'],
  ] as const)('%s sends %s %s', async (name, method, path) => {
    const transport = mockTransport([{ status: 200, body: { job: { id: 'a/b' } } }])
    const job = await new OJSClient({ transport })[name]('a/b')
    expect(transport.only).toMatchObject({ method, path })
    expect(job).toEqual({ id: 'a/b' })
  })

  test('rejects an unknown id with OJSNotFoundError', async () => {
    const transport = mockTransport([answered({ code: 'not_found', message: 'no' }, 404)])
    await expect(new OJSClient({ transport }).getJob('1')).rejects.toBeInstanceOf(OJSNotFoundError)
  })

  test('throws for an empty id without a request, because the path would name all jobs', async () => {
    const transport = mockTransport([])
    await expect(new OJSClient({ transport }).cancelJob('')).rejects.toThrow(TypeError)
    expect(transport.requests).toEqual([])
  })
})

function idOf(request: { body?: unknown } | undefined): string {
  if (!request) throw new Error('nothing was sent')
  return (request.body as { id: string }).id
}
