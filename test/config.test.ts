import { describe, expect, it } from 'vitest'
import { ConfigError, readConfig, type VARIABLES } from '../src/config.ts'

describe('configuration', () => {
  it('has a default for everything', () => {
    const { config, warnings } = readConfig({})
    expect(config).toMatchObject({
      host: '127.0.0.1',
      port: 8080,
      ledgerPath: './data/ojs.db',
      queueType: 'classic',
      queues: ['default'],
      declare: 'lazy',
      prefix: '',
      publishTimeoutMs: 10_000,
    })
    expect(warnings).toEqual([])
    expect(Object.isFrozen(config)).toBe(true)
  })

  it('accepts the alias AMQP_URL, and the own name wins', () => {
    expect(readConfig({ AMQP_URL: 'amqp://a' }).config.amqpUrls).toEqual(['amqp://a'])
    const both = { AMQP_URL: 'amqp://a', OJS_AMQP_URL: 'amqp://b, amqps://c' }
    expect(readConfig(both).config.amqpUrls).toEqual(['amqp://b', 'amqps://c'])
  })

  it('refuses a misspelt name and says which one was meant', () => {
    expect(() => readConfig({ OJS_QUEUE_TIPE: 'quorum' })).toThrow('did you mean OJS_QUEUE_TYPE?')
  })

  it('only warns of a name that is like none of ours', () => {
    expect(readConfig({ OJS_SOMETHING_ELSE: '1' }).warnings).toEqual([
      'OJS_SOMETHING_ELSE is not known and ignored',
    ])
  })

  it('reports every mistake at once, without the password of a URL', () => {
    const env = { OJS_PORT: '80x', OJS_DECLARE: 'often', OJS_AMQP_URL: 'http://u:secret@host' }
    const message = messageOf(() => readConfig(env))
    expect(message.split('\n')).toHaveLength(3)
    expect(message).toContain('OJS_PORT')
    expect(message).toContain('OJS_DECLARE')
    expect(message).not.toContain('secret')
  })

  it.each<[keyof typeof VARIABLES, string]>([
    ['OJS_PORT', '65536'],
    ['OJS_PORT', '-1'],
    ['OJS_PUBLISH_TIMEOUT_MS', '1.5'],
    ['OJS_QUEUE_TYPE', 'stream'],
    ['OJS_PREFIX', 'Tenant'],
    ['OJS_LEDGER', 'postgres://x'],
  ])('refuses %s=%s', (name, value) => {
    expect(() => readConfig({ [name]: value })).toThrow(ConfigError)
  })
})

function messageOf(run: () => unknown): string {
  try {
    run()
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
  throw new Error('did not throw')
}
