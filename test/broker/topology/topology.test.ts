import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createNames, withPrefix } from '../../../src/broker/names.ts'
import type { Entity } from '../../../src/broker/topology/topology.ts'
import { topologyWith } from '../harness.ts'

const VERSION = '3.10.8'
let dir = ''

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'ojs-topology-'))
})
afterAll(() => rmSync(dir, { recursive: true }))

const shipped: Record<string, unknown> = JSON.parse(
  readFileSync(new URL('../../../topology/topology.json', import.meta.url), 'utf8'),
)

it('the schema of the topology is a valid JSON Schema, as the gateway assumes', () => {
  const file = new URL('../../../topology/topology.schema.json', import.meta.url)
  const ajv = new Ajv2020({ strict: false })
  expect([ajv.validateSchema(JSON.parse(readFileSync(file, 'utf8'))), ajv.errors]).toEqual([
    true,
    null,
  ])
})

function write(content: object): string {
  const file = join(dir, 'topology.json')
  writeFileSync(file, JSON.stringify(content))
  return file
}

function nameOf(entity: Entity): string {
  return entity.name
}

describe.each(['', 'tenant1'])('the shipped topology, prefix %o', (prefix) => {
  const topology = topologyWith({ prefix })
  const names = createNames(prefix)
  const ofQueue = topology.ofQueue('email', VERSION)

  it('has the entities of the seed, with the names that the code uses', () => {
    expect(topology.base(VERSION).map(nameOf)).toEqual([
      names.exchange.direct,
      names.exchange.dlx,
      names.exchange.retry,
      names.exchange.delayed,
      names.deadLetters,
      names.dueDeadLetters,
      names.due,
      names.deadLetters,
      names.controlQueue('default'),
    ])
    expect(topology.owner(VERSION).name).toBe(names.owner)
    expect(ofQueue.map(nameOf)).toEqual([
      names.dlxQueue('email'),
      names.deadLetters,
      names.jobQueue('email'),
      names.controlQueue('email'),
    ])
  })

  it('binds each queue as the seed says; keys stay OJS names unless they name a queue', () => {
    const job = ofQueue.find((entity) => entity.kind === 'job')
    expect(job?.bindings).toEqual([{ exchange: names.exchange.direct, key: 'email' }])
    const dlx = ofQueue.find((entity) => entity.kind === 'dlx')
    expect(dlx?.bindings).toEqual([{ exchange: names.exchange.dlx, key: 'email' }])
    const control = names.controlQueue('email')
    expect(ofQueue.find((entity) => entity.kind === 'control')).toMatchObject({
      bindings: [{ exchange: names.exchange.direct, key: control }],
      arguments: {
        'x-dead-letter-exchange': names.exchange.dlx,
        'x-dead-letter-routing-key': control,
      },
    })
    expect(ofQueue.find((entity) => entity.kind === 'dead-letters')?.bindings).toEqual([
      { exchange: names.exchange.dlx, key: 'email' },
      { exchange: names.exchange.dlx, key: control },
    ])
  })

  it('has a retry queue for any delay, which leads back to its job queue (seed 002 §8.2)', () => {
    expect(topology.retryQueue('email.bulk', 1500, VERSION)).toEqual({
      entity: 'queue',
      kind: 'rung',
      name: names.retryQueue('email.bulk', 1500),
      arguments: {
        'x-queue-type': 'quorum',
        'x-dead-letter-exchange': names.exchange.direct,
        'x-dead-letter-routing-key': 'email.bulk',
        'x-message-ttl': 1500,
        'x-dead-letter-strategy': 'at-least-once',
        'x-overflow': 'reject-publish',
      },
      bindings: [{ exchange: names.exchange.retry, key: 'email.bulk.1500' }],
    })
  })

  it('declares every target before the queue that routes to it', () => {
    const all: Entity[] = [...topology.base(VERSION), ...ofQueue]
    const bound = new Set<string>()
    for (const entity of all) {
      if (entity.entity === 'exchange') continue
      for (const { exchange, key } of entity.bindings) {
        expect(all.findIndex((other) => other.name === exchange)).toBeLessThan(all.indexOf(entity))
        bound.add(`${exchange} ${key}`)
      }
      const { 'x-dead-letter-exchange': target, 'x-dead-letter-routing-key': key } =
        entity.arguments
      if (target !== undefined) expect(bound).toContain(`${target} ${key}`)
    }
  })
})

describe('settings of single queues', () => {
  it('change the profile and the limits of that queue alone', () => {
    const queues = { billing: { type: 'quorum', maxLength: 9, messageTtlMs: 1000 } }
    const topology = topologyWith({ topologyPath: write({ ...shipped, queues }) })
    const job = (queue: string) =>
      topology.ofQueue(queue, VERSION).find((entity) => entity.kind === 'job')?.arguments
    expect(job('billing')).toMatchObject({
      'x-queue-type': 'quorum',
      'x-max-length': 9,
      'x-message-ttl': 1000,
    })
    expect(job('email')).toMatchObject({ 'x-queue-type': 'classic' })
    expect(job('email')).not.toHaveProperty('x-max-length')
    const dlx = topology.ofQueue('billing', VERSION).find((entity) => entity.kind === 'dlx')
    expect(dlx?.arguments).not.toHaveProperty('x-max-length')
  })
})

describe('a queue with limits in the profile classic', () => {
  const typeOf = (settings: object) => {
    const topology = topologyWith({ topologyPath: write({ ...shipped, queues: { q: settings } }) })
    const arguments_ = topology
      .ofQueue('q', VERSION)
      .map((one) => [one.kind, one.arguments['x-queue-type']])
    return Object.fromEntries(arguments_)
  }

  it.each([{ maxLength: 9 }, { maxLengthBytes: 9 }, { messageTtlMs: 9 }])(
    'is a quorum queue: %o',
    (limits) => {
      expect(typeOf(limits)).toMatchObject({ job: 'quorum', control: 'classic' })
    },
  )

  it.each([{ maxLength: 9, type: 'classic' }, { maxLength: 9, overflow: 'drop-head' }, {}])(
    'stays a classic queue when the settings ask for it, or have no limit: %o',
    (settings) => {
      expect(typeOf(settings)).toMatchObject({ job: 'classic' })
    },
  )
})

describe('a topology file', () => {
  it.each([
    ['an unknown member', { ...shipped, qeues: {} }],
    ['a missing section', { ...shipped, perQueue: undefined }],
    ['no retry queue', { ...shipped, rung: undefined }],
    ['no job queue', { ...shipped, perQueue: [{ kind: 'dlx', name: 'ojs.queue.dlx.{queue}' }] }],
    ['a name outside ojs.', { ...shipped, system: [{ kind: 'due', name: 'due' }] }],
    ['a wrong limit', { ...shipped, queues: { email: { maxLength: 0 } } }],
    ['an unknown setting', { ...shipped, queues: { email: { max_length: 1 } } }],
    ['a wrong queue name', { ...shipped, queues: { Email: {} } }],
  ])('is refused with the name of the file when it has %s', (_what, content) => {
    const file = write(content)
    expect(() => topologyWith({ topologyPath: file })).toThrow(file)
  })

  it.each([
    ['a limit that RabbitMQ does not take', { maxLength: 1e300 }],
    ['a limit in bytes that RabbitMQ does not take', { maxLengthBytes: 1e300 }],
    ['a time to live beyond 32 bits', { messageTtlMs: 2 ** 32 }],
  ])('is refused when it is loaded, not with each PUSH, for %s', (_what, settings) => {
    const file = write({ ...shipped, queues: { email: settings } })
    expect(() => topologyWith({ topologyPath: file })).toThrow('must be <= ')
  })

  it.each([
    'ojs.exchange.direct',
    'ojs.exchange.dlx',
    'ojs.exchange.retry',
    'ojs.exchange.delayed',
    'ojs.system.due',
    'ojs.system.due.dlx',
    'ojs.system.owner',
    'ojs.queue.{queue}',
    'ojs.queue.dlx.{queue}',
    'ojs.queue.control.{queue}',
    'ojs.queue.retry.{queue}.{ms}',
    'ojs.system.dead-letters',
  ])('is refused when it has another name for %s, which the code would look for', (name) => {
    const renamed = JSON.stringify(shipped).replaceAll(`"name":"${name}"`, '"name":"ojs.other"')
    const file = write(JSON.parse(renamed))
    expect(() => topologyWith({ topologyPath: file })).toThrow(`'${name}' of `)
  })

  it.each([
    ['"type":"direct"', '"type":"topic"', "exchange 'ojs.exchange.direct' of type direct"],
    ['"kind":"control"', '"kind":"dlx"', "queue 'ojs.queue.control.{queue}' of kind control"],
  ])('is refused when it has an entity of another type or kind: %s', (said, otherwise, lacking) => {
    const file = write(JSON.parse(JSON.stringify(shipped).replace(said, otherwise)))
    expect(() => topologyWith({ topologyPath: file })).toThrow(`it lacks ${lacking}`)
  })

  it('may have more entities than the shipped one', () => {
    const audit = '{"name":"ojs.exchange.audit","type":"fanout"}'
    const more = JSON.stringify(shipped).replace('"exchanges":[', `"exchanges":[${audit},`)
    const topology = topologyWith({ topologyPath: write(JSON.parse(more)) })
    expect(topology.base(VERSION).map(nameOf)).toContain('ojs.exchange.audit')
  })

  it('is refused with its name when it is no JSON, or does not exist', () => {
    const file = write({})
    writeFileSync(file, 'exchanges: []')
    const isTold = `The topology file '${file}' cannot be read: `
    expect(() => topologyWith({ topologyPath: file })).toThrow(isTold)
    expect(() => topologyWith({ topologyPath: `${file}.none` })).toThrow(/topology file .*ENOENT/)
  })
})

describe('the shipped policies', () => {
  it.each(['', 'tenant-1'])('limit job queues and nothing else of prefix "%s"', (prefix) => {
    const file: { policies: { pattern: string }[] } = JSON.parse(
      readFileSync(new URL('../../../topology/policies.json', import.meta.url), 'utf8'),
    )
    const names = createNames(prefix)
    const all = [
      ...[
        names.dlxQueue('a'),
        names.dlxQueue('b.ojs.queue.c'),
        names.controlQueue('a'),
        names.retryQueue('a', 1000),
      ],
      ...[
        names.due,
        names.dueDeadLetters,
        names.deadLetters,
        names.owner,
        names.jobQueue('a'),
        names.jobQueue('a.b'),
      ],
    ]
    for (const { pattern } of file.policies) {
      const limited = all.filter((name) => new RegExp(pattern).test(name))
      expect(limited).toEqual([names.jobQueue('a'), names.jobQueue('a.b')])
    }
  })
})

describe('names', () => {
  it('put the prefix in front of entities only', () => {
    expect(withPrefix('tenant1', 'ojs.queue.email')).toBe('tenant1.ojs.queue.email')
    expect(withPrefix('tenant1', 'email')).toBe('email')
    expect(withPrefix('', 'ojs.queue.email')).toBe('ojs.queue.email')
  })

  it('name retry queues as in seed 002 §4.1', () => {
    expect(createNames('').retryQueue('email', 5000)).toBe('ojs.queue.retry.email.5000')
  })
})
