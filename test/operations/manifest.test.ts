import { expect, test } from 'vitest'
import type { PriorityOrder } from '../../src/broker/broker.ts'
import type { KnownReplication } from '../../src/ledger/known.ts'
import { disasterRecovery, type ManifestFacts, manifest } from '../../src/operations/manifest.ts'

const FACTS: ManifestFacts = {
  version: '1.2.3',
  baseUrl: 'http://127.0.0.1:8080',
  queueType: 'quorum',
  maxBodyBytes: 12_345,
  priorityOrder: () => null,
  access: { needsKeys: false, needsClientCertificate: false, rateLimit: undefined },
  disasterRecovery: () => disasterRecovery(replication(false, 0)),
}

/** What is known of a ledger on PostgreSQL. */
function replication(isReplicated: boolean, standbys: number): KnownReplication {
  return { kind: 'postgres', isReplicated: () => isReplicated, standbys: () => standbys }
}

/** The manifest as a client reads it. */
function read(change: Partial<ManifestFacts> = {}) {
  return JSON.parse(JSON.stringify(manifest({ ...FACTS, ...change })))
}

test('the manifest states version, conformance level, queue type, limits and base URL', () => {
  expect(read()).toMatchObject({
    implementation: { version: '1.2.3' },
    conformance_level: 4,
    extension_details: { queue_type: 'quorum', max_body_bytes: 12_345 },
    endpoints: { base_url: 'http://127.0.0.1:8080/ojs/v1', openapi: '/ojs/v1/openapi.json' },
  })
})

test('the manifest has details for each extension that it names', () => {
  const access = { needsKeys: true, needsClientCertificate: true, rateLimit: undefined }
  const { extensions, extension_details: details } = read({ access })
  expect(extensions).toContain('bearer_api_keys')
  expect(extensions).toContain('mutual_tls')
  for (const name of extensions) expect(details).toHaveProperty(name)
})

test('the manifest names the OJS documents that are implemented in full', () => {
  expect(read().extensions).toEqual(
    expect.arrayContaining([
      'admin-api',
      'bulk-operations',
      'dead-letter',
      'durable-execution',
      'progress',
      'realtime',
    ]),
  )
})

test('the manifest says what survives a failure, and no more', () => {
  const { capabilities, extensions, extension_details: details } = read()
  expect(details.disaster_recovery).toEqual({ durability_level: 1, ha_mode: 'none' })
  expect(extensions).not.toContain('disaster_recovery')
  const shared = { disasterRecovery: () => disasterRecovery(replication(true, 1)) }
  expect(read(shared).extension_details.disaster_recovery).toEqual({
    durability_level: 2,
    ha_mode: 'active-passive',
  })
  expect(capabilities).toMatchObject({ cron: true, cron_jobs: true })
})

test('the manifest names no protection that is not configured', () => {
  const { extensions, extension_details: details } = read()
  for (const name of ['bearer_api_keys', 'mutual_tls', 'request_limit']) {
    expect(extensions).not.toContain(name)
    expect(details).not.toHaveProperty(name)
  }
})

test('the manifest states the request limit and its window in seconds', () => {
  const access = { ...FACTS.access, rateLimit: { limit: 1_000, windowMs: 60_000 } }
  const { request_limit: text } = read({ access }).extension_details
  expect(text).toContain('1000 requests per API key')
  expect(text).toContain('window of 60 s')
})

test.each<[PriorityOrder | null, string]>([
  [null, 'the order is unknown while there is no connection'],
  [{ levels: 1, isStrict: true }, 'by arrival'],
  [{ levels: 2, isStrict: false }, '2 levels (above 4, and all others), served two to one'],
  [
    { levels: 10, isStrict: true },
    '10 levels (0 to 9; lower and higher ones count as 0 and 9), strictly',
  ],
])('the manifest describes the order of priorities in queues: %o', (order, text) => {
  const { priority } = read({ priorityOrder: () => order }).extension_details
  expect(priority).toContain(`In quorum queues of this RabbitMQ: ${text}`)
})
