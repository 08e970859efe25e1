import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { readConfig } from '../../src/config/config.ts'
import { shownConfig } from '../../src/config/shown.ts'
import { VARIABLES } from '../../src/config/variables.ts'
import { scratchDir } from '../sdk/bundle.ts'

const dir = scratchDir()

it('GET /admin/system/config shows a fixed list of settings, and where each comes from', () => {
  const { config } = readConfig({ OJS_TIMEOUT_MS: '1234', OJS_QUEUES: 'a,b' })
  const shown = shownConfig(config)
  expect(shown['timeout_ms']).toEqual({ value: 1234, source: 'env' })
  expect(shown['queues']).toEqual({ value: ['a', 'b'], source: 'env' })
  expect(shown['retention_completed']).toEqual({ value: 'PT604800S', source: 'default' })
  const hidden = Object.keys(VARIABLES)
    .map((name) => name.slice('OJS_'.length).toLowerCase())
    .filter((name) => !(name in shown))
  // A new variable is not shown before somebody has thought about it: add it to one of the two lists.
  expect(hidden).toEqual([
    'host',
    'port',
    'amqp_url',
    'amqp_url_file',
    'management_url',
    'management_url_file',
    'ledger',
    'ledger_file',
    'advertised_url',
    'topology',
    'api_keys',
    'api_keys_file',
    'allow_open',
    'tls_cert',
    'tls_key',
    'tls_ca',
    'cors_origins',
    'rate_limit',
    'oidc_issuer',
    'oidc_client_id',
    'oidc_client_secret',
    'oidc_client_secret_file',
    'oidc_redirect_url',
    'oidc_scope',
    'oidc_claim',
    'oidc_name_claim',
    'oidc_roles',
  ])
})

it('GET /admin/system/config shows nothing of secrets, addresses and paths', () => {
  const file = join(dir, 'url')
  writeFileSync(file, 'amqp://user:hunter2@broker.internal/%2F')
  const { config } = readConfig({
    OJS_AMQP_URL_FILE: file,
    OJS_API_KEYS: `boss:admin:${'cafe'.repeat(16)}`,
    OJS_LEDGER: 'sqlite:/srv/secret-place/ojs.db',
    OJS_HOST: '10.1.2.3',
  })
  const text = JSON.stringify(shownConfig(config))
  for (const secret of ['hunter2', 'broker.internal', 'cafe', 'boss', 'secret-place', '10.1.2.3'])
    expect(text).not.toContain(secret)
  expect(config.sources).toMatchObject({ OJS_AMQP_URL: 'file', OJS_HOST: 'env' })
})

it('GET /admin/system/config shows nothing of a ledger on PostgreSQL', () => {
  const file = join(dir, 'ledger')
  writeFileSync(file, 'postgres://user:hunter2@pg.internal/jobs?sslmode=verify-full\n')
  const { config } = readConfig({ OJS_LEDGER_FILE: file, OJS_ADVERTISED_URL: 'http://10.1.2.3' })
  expect(config.ledger.type).toBe('postgres')
  const text = JSON.stringify(shownConfig(config))
  for (const secret of ['hunter2', 'pg.internal', '10.1.2.3']) expect(text).not.toContain(secret)
  expect(config.sources).toMatchObject({ OJS_LEDGER: 'file' })
})
