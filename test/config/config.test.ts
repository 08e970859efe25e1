import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { ConfigError, readConfig } from '../../src/config/config.ts'
import { VARIABLES } from '../../src/config/variables.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'

describe('configuration', () => {
  it('has a default for everything', () => {
    const { config, warnings } = readConfig({})
    expect(config).toMatchObject({
      host: '127.0.0.1',
      port: 8080,
      ledger: { type: 'sqlite', path: './data/ojs.db' },
      queueType: 'classic',
      queues: ['default'],
      declare: 'lazy',
      topologyPath: null,
      prefix: '',
      publishTimeoutMs: 10_000,
    })
    expect(warnings).toEqual([])
    expect([config, config.access].every(Object.isFrozen)).toBe(true)
  })

  it('accepts AMQP_URL as an alias, which OJS_AMQP_URL overrides', () => {
    expect(readConfig({ AMQP_URL: 'amqp://a' }).config.amqpUrls).toEqual(['amqp://a'])
    const both = { AMQP_URL: 'amqp://a', OJS_AMQP_URL: 'amqp://b, amqp://c' }
    expect(readConfig(both).config.amqpUrls).toEqual(['amqp://b', 'amqp://c'])
    // A scheme in any case, as RFC 3986 has it.
    expect(readConfig({ AMQP_URL: 'AMQP://a' }).config.amqpUrls).toEqual(['AMQP://a'])
    // Docker Compose passes an unset variable on as an empty one, so empty means unset.
    const empty = { AMQP_URL: 'amqp://a', OJS_AMQP_URL: '' }
    expect(readConfig(empty).config.amqpUrls).toEqual(['amqp://a'])
  })

  it('knows all variables that docker-compose.yml sets, and treats their empty defaults as unset', () => {
    const file = readFileSync(new URL('../../docker-compose.yml', import.meta.url), 'utf8')
    const lines = file.matchAll(/^ {6}(OJS_\w+): "?(.*?)"?$/gm)
    // Replaces `${NAME:-default}` by its default, as Docker Compose does when NAME is not set.
    const env = [...lines].map(([, name = '', value = '']) => [
      name,
      value.replace(/\$\{(\w+):-(.*)\}/, '$2'),
    ])
    expect(env.length).toBeGreaterThan(8)
    const all = Object.keys(VARIABLES).filter((name) => name.startsWith('OJS_RETENTION_'))
    expect(env.map(([name]) => name)).toEqual(expect.arrayContaining(all))
    const { config, warnings } = readConfig(Object.fromEntries(env))
    const { amqpUrls, sources } = config
    expect(amqpUrls).toEqual(['amqp://guest:guest@rabbitmq:5672/%2Fojs'])
    const bare = readConfig({ OJS_ALLOW_OPEN: '1' }).config
    expect(config).toEqual({ ...bare, amqpUrls, sources })
    expect(warnings).toEqual([])
  })

  it('pins the minor version of RabbitMQ in docker-compose.yml, and limits the size of logs there', () => {
    const file = readFileSync(new URL('../../docker-compose.yml', import.meta.url), 'utf8')
    // Minor versions of PostgreSQL read each other's data.
    expect(file.match(/image: \S+/g)).toEqual([
      expect.stringMatching(/rabbitmq:\d+\.\d+-management$/),
      expect.stringMatching(/postgres:\d+$/),
    ])
    expect(file).toContain('max-size')
    expect(file.match(/^ {4}logging: \*logging$/gm)).toHaveLength(3)
  })

  it('builds the image without install scripts, and runs it with a read-only file system', () => {
    const read = (name: string) => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8')
    const commands = read('Dockerfile').match(/npm (?:install|ci|prune|rebuild)\b[^&\n]*/g)
    expect(commands?.length).toBeGreaterThanOrEqual(2)
    for (const command of commands ?? []) {
      if (!command.startsWith('npm ci`')) expect(command).toContain('--ignore-scripts')
    }
    const gateway = read('docker-compose.yml').split(/^ {2}gateway: /m)[1]
    expect(gateway).toMatch(/^ {4}read_only: true$/m)
    expect(gateway).toMatch(/^ {6}- gateway-data:\/app\/data$/m)
  })

  it.each(['OJS_QUEUE_TIPE', 'OJS_QUEU_TIPE', 'OJS_QUEUE_TYPES', 'OJS_QUEUETYPE'])(
    'refuses a misspelt name and suggests the right one: %s',
    (name) => {
      expect(() => readConfig({ [name]: 'quorum' })).toThrow('did you mean OJS_QUEUE_TYPE?')
    },
  )

  it.each([
    ['OJS_RETENTION', 'OJS_RETENTION_COMPLETED or OJS_RETENTION_CANCELLED or'],
    ['OJS_VISIBILITY_TIMEOUT', 'OJS_VISIBILITY_TIMEOUT_MS?'],
    ['OJS_LEDGER_PATH', 'OJS_LEDGER?'],
    ['OJS_TLS_CERT_FILE', 'OJS_TLS_CERT?'],
    ['OJS_PREFIX_FILE', 'OJS_PREFIX?'],
    ['OJS_API_KEY_FILE', 'OJS_API_KEYS_FILE?'],
  ])(
    'refuses a name that is too short or too long and suggests the right ones: %s',
    (name, meant) => {
      expect(() => readConfig({ [name]: '1' })).toThrow(
        `${name} is not known; did you mean ${meant}`,
      )
    },
  )

  it('only warns about variables that Kubernetes sets for a Service', () => {
    const names = ['OJS_SERVICE_HOST', 'OJS_SERVICE_PORT_HTTP', 'OJS_PORT_8080_TCP_ADDR']
    const more = ['OJS_PORT_8080_TCP', 'OJS_LEDGER_PORT', 'OJS_LEDGER_SERVICE_HOST']
    const env = Object.fromEntries([...names, ...more].map((name) => [name, 'tcp://10.0.0.1:8080']))
    expect(readConfig(env).warnings).toHaveLength(6)
  })

  it('only warns about a name that is similar to no variable', () => {
    expect(readConfig({ OJS_SOMETHING_ELSE: '1' }).warnings).toEqual([
      'OJS_SOMETHING_ELSE is not a known variable; it is ignored',
    ])
    expect(readConfig({ OJS_QUEUE_XYZ: '1' }).warnings).toHaveLength(1)
  })

  it.each([
    'heartbeat=1',
    'heartbeat=300&channelMax=16',
    'channelMax=0&frameMax=0',
    'frameMax=65536',
  ])('accepts connection parameters in an AMQP URL: %s', (query) => {
    const url = `amqp://host/%2Fojs?${query}`
    expect(readConfig({ OJS_AMQP_URL: url }).config.amqpUrls).toEqual([url])
  })

  it.each([
    ...['heartbeat=0', 'heartbeat=301', 'heartbeat=never', 'heartbeat='],
    ...['channelMax=1', 'channelMax=15'],
  ])('says why a connection cannot have %s', (query) => {
    const urls = `amqp://host,amqp://u:secret@host?${query}`
    const message = messageOf(() => readConfig({ OJS_AMQP_URL: urls }))
    const [name] = query.split('=')
    expect(message).toMatch(`OJS_AMQP_URL, entry 2: ${name} must be an integer from`)
    expect(message).toMatch(/rare heartbeats|14 channels/)
  })

  it.each(['frame_max', 'channel_max', 'cacertfile', 'verify', 'heartbeats', 'Heartbeat'])(
    'refuses an unknown parameter in an AMQP URL: %s',
    (name) => {
      const url = `amqps://host/%2Fojs?heartbeat=5&${name}=5`
      expect(messageOf(() => readConfig({ OJS_AMQP_URL: url }))).toBe(
        `OJS_AMQP_URL, entry 1: unknown parameter '${name}'; the known ones are heartbeat, channelMax, frameMax`,
      )
    },
  )

  it('hides a password with a question mark in its error', () => {
    const message = messageOf(() => readConfig({ OJS_AMQP_URL: 'amqp://user:1?secret=x@host' }))
    expect(message).toContain('unknown parameter; the known ones are')
    expect(message).not.toContain('secret')
  })

  it.each([
    ['amqp://a/one, amqp://b/two', 'virtual hosts'],
    ['amqp://a/%2Fojs, amqp://b', 'virtual hosts'],
    ['amqp://a/%2Fojs, amqps://b/%2Fojs', 'amqp:// and amqps://'],
  ])('refuses several URLs with different virtual hosts or schemes: %s', (urls, why) => {
    expect(() => readConfig({ OJS_AMQP_URL: urls })).toThrow(why)
  })

  it.each([
    'amqp://a, amqp://b/, AMQP://c/%2f',
    'amqp://u:p@a/%2Fojs, amqp://b:1/%2fojs?frameMax=0',
  ])('accepts several URLs with the same virtual host: %s', (urls) => {
    expect(() => readConfig({ OJS_AMQP_URL: urls })).not.toThrow()
  })

  it('reports all mistakes at once, without the password of a URL', () => {
    const env = { OJS_PORT: '80x', OJS_DECLARE: 'often', OJS_AMQP_URL: 'http://u:secret@host' }
    const message = messageOf(() => readConfig(env))
    expect(message.split('\n')).toHaveLength(3)
    expect(message).toContain('OJS_PORT')
    expect(message).toContain('OJS_DECLARE')
    expect(message).not.toContain('secret')
  })

  it('shows the value of a setting that is none of the accepted ones', () => {
    const message = messageOf(() => readConfig({ OJS_QUEUE_TYPE: 'quorum\r' }))
    expect(message).toBe("OJS_QUEUE_TYPE must be one of classic, quorum, not 'quorum\r'")
  })

  it('reads each setting from its own variable', () => {
    const { config } = readConfig({
      ...{ OJS_HOST: '::1', OJS_PORT: '1', OJS_LEDGER: 'sqlite:/l', OJS_LEDGER_SYNC: 'normal' },
      ...{ OJS_QUEUE_TYPE: 'quorum', OJS_QUEUES: 'a, ,b,', OJS_DECLARE: 'never' },
      ...{ OJS_TOPOLOGY: '/t', OJS_PREFIX: 'p', OJS_VISIBILITY_TIMEOUT_MS: '2' },
      ...{ OJS_TIMEOUT_MS: '3', OJS_DELIVERY_TIMEOUT_MS: '60004', OJS_PUBLISH_TIMEOUT_MS: '105' },
      ...{ OJS_CONSUMER_PRIORITY: '-6', OJS_MAX_QUEUES: '7', OJS_MAX_RUNGS: '8' },
      ...{ OJS_DELAY_MODE: 'plugin', OJS_HORIZON_MS: '9', OJS_MAX_BODY_BYTES: '1030' },
      ...{ OJS_MAX_BATCH_BYTES: '1031', OJS_RETENTION_COMPLETED: 'PT1S' },
      ...{ OJS_RETENTION_CANCELLED: 'PT2S', OJS_RETENTION_DISCARDED: 'PT3S' },
      ...{ OJS_SCHEMA_STRICT: '1', OJS_LOG_LEVEL: 'debug', OJS_EVENTS_EXCHANGE: '1' },
      ...{
        OJS_RETENTION_DEAD_LETTERS: 'PT4S',
        OJS_MAX_DEAD_LETTERS: '5',
        OJS_DIALECT: 'conformance',
      },
    })
    expect(config).toMatchObject({
      ...{ host: '::1', port: 1, ledger: { type: 'sqlite', path: '/l' }, ledgerSync: 'normal' },
      ...{ queueType: 'quorum', queues: ['a', 'b'], declare: 'never', topologyPath: '/t' },
      ...{ prefix: 'p', visibilityTimeoutMs: 2, timeoutMs: 3, deliveryTimeoutMs: 60_004 },
      ...{ publishTimeoutMs: 105, consumerPriority: -6, maxQueues: 7, maxRetryQueues: 8 },
      ...{ delayMode: 'plugin', horizonMs: 9, maxBodyBytes: 1_030, maxBatchBytes: 1_031 },
      retention: {
        ...{ completedMs: 1_000, cancelledMs: 2_000, discardedMs: 3_000, deadLettersMs: 4_000 },
        maxDeadLetters: 5,
      },
      ...{ dialect: 'conformance', schemaStrict: true, logLevel: 'debug', eventsExchange: true },
    })
  })

  it.each<[keyof typeof VARIABLES, least: number, most: number]>([
    ['OJS_PORT', 0, 65_535],
    ['OJS_VISIBILITY_TIMEOUT_MS', 1, 2 ** 31 - 1],
    ['OJS_TIMEOUT_MS', 0, 2 ** 31 - 1],
    ['OJS_DELIVERY_TIMEOUT_MS', 60_000, 2 ** 31 - 1],
    ['OJS_PUBLISH_TIMEOUT_MS', 100, 2 ** 31 - 1],
    ['OJS_CONSUMER_PRIORITY', -(2 ** 31), 2 ** 31 - 1],
    ['OJS_MAX_QUEUES', 1, 2 ** 31 - 1],
    ['OJS_MAX_RUNGS', 0, 2 ** 31 - 1],
    ['OJS_HORIZON_MS', 0, 604_800_000],
    ['OJS_MAX_DEAD_LETTERS', 0, 2 ** 31 - 1],
    ['OJS_MAX_BODY_BYTES', 1_024, 2 ** 30],
    ['OJS_MAX_BATCH_BYTES', 1_024, 2 ** 30],
  ])('%s is an integer from %d to %d', (name, least, most) => {
    const read = (value: number) => readConfig({ [name]: String(value) })
    for (const value of [least, most]) expect(() => read(value)).not.toThrow()
    for (const value of [least - 1, most + 1]) expect(() => read(value)).toThrow(name)
  })

  it.each<[keyof typeof VARIABLES, string]>([
    ['OJS_PORT', ' '],
    ['OJS_PORT', '0x50'],
    ['OJS_AMQP_URL', ','],
    ['OJS_AMQP_URL', 'amqp:host'],
    ['OJS_AMQP_URL', 'amqp://user:100%@host'],
    // A URL parser reads these two as host `user` and port 12.
    ['OJS_AMQP_URL', 'amqp://user:12#secret@host/%2Fojs'],
    ['OJS_AMQP_URL', 'amqp://user:12/secret@host/%2Fojs'],
    ['OJS_AMQP_URL', 'amqp://host?heartbeat=5s'],
    ['OJS_AMQP_URL', 'amqp://host/%2Fojs?heartbeat=-1'],
    ['OJS_AMQP_URL', 'amqp://host?heartbeat=65536'],
    ['OJS_AMQP_URL', 'amqp://host?channelMax=x'],
    ['OJS_AMQP_URL', 'amqp://host?channelMax=65536'],
    ['OJS_AMQP_URL', 'amqp://host?frameMax=65535'],
    ['OJS_AMQP_URL', 'amqp://100%:password@host'],
    ['OJS_PUBLISH_TIMEOUT_MS', '1.5'],
    ['OJS_QUEUE_TYPE', 'stream'],
    ['OJS_PREFIX', 'Tenant'],
    ['OJS_LEDGER', 'postgres://x'],
    ['OJS_LEDGER', 'postgres:'],
    ['OJS_LEDGER', 'postgress://user:password@localhost/jobs'],
    ['OJS_ADVERTISED_URL', 'gateway:8080'],
    ['OJS_ADVERTISED_URL', 'http://gateway:8080/jobs'],
    ['OJS_ADVERTISED_URL', 'http://user:password@gateway:8080'],
    ['OJS_LEDGER', 'sqlite:'],
    ['OJS_LEDGER', 'sqlite: '],
    ['OJS_LEDGER', 'sqlite:./data/ojs.db\r'],
    ['OJS_LEDGER', 'sqlite:./data/ojs.db '],
    ['OJS_LEDGER', 'sqlite:./data\r/ojs.db'],
    ['OJS_LEDGER', 'sqlite::memory:'],
    ['OJS_LEDGER', 'sqlite:file:ojs.db?mode=memory'],
    ['OJS_QUEUES', 'email,dlx.email'],
    ['OJS_QUEUES', ','],
    ['OJS_RETENTION_COMPLETED', 'PT0S'],
    ['OJS_RETENTION_DEAD_LETTERS', 'P0D'],
    ['OJS_ALLOW_OPEN', 'yes'],
    ['OJS_RATE_LIMIT', '1000'],
    ['OJS_CORS_ORIGINS', '*'],
    ['OJS_API_KEYS', ','],
  ])('refuses %s=%s', (name, value) => {
    expect(() => readConfig({ [name]: value })).toThrow(ConfigError)
  })

  it('reads the address of a ledger on PostgreSQL, and says mistakes without any of it', () => {
    const OJS_LEDGER = 'postgres://user:hunter2@a,b:5433/jobs?sslmode=verify-full'
    const { ledger } = readConfig({ OJS_LEDGER }).config
    const hosts = [
      { host: 'a', port: 5432 },
      { host: 'b', port: 5433 },
    ]
    expect(ledger).toMatchObject({ type: 'postgres', address: { hosts, password: 'hunter2' } })
    for (const wrong of [
      'postgres://user:hunter2@a/jobs',
      'postgres://user:hunter2/@a',
      'postgress://user:hunter2@a/b',
      'postgresql:user:hunter2',
    ]) {
      const read = () => readConfig({ OJS_LEDGER: wrong })
      expect(read, wrong).toThrow('OJS_LEDGER')
      expect(read, wrong).not.toThrow('hunter2')
    }
    expect(() => readConfig({ OJS_LEDGER: 'postgres:' })).toThrow('npm start')
  })

  it('describes the whole rule for a prefix that breaks it', () => {
    expect(() => readConfig({ OJS_PREFIX: '-tenant' })).toThrow(/start with a letter or digit/)
  })

  it('accepts an @ in a virtual host after a user, which no password can include', () => {
    const url = 'amqp://user:password@host/jobs@home'
    expect(readConfig({ OJS_AMQP_URL: url }).config.amqpUrls).toEqual([url])
  })

  it("refuses queues that look like entities of the gateway's prefix", () => {
    const queues = { OJS_QUEUES: 'tenant1.ojs.queue.control.default' }
    expect(() => readConfig({ ...queues, OJS_PREFIX: 'tenant1' })).toThrow(ConfigError)
    expect(readConfig(queues).config.queues).toHaveLength(1)
  })

  it('explains that a port like tcp://10.0.0.1:8080 comes from a Kubernetes Service', () => {
    const read = () => readConfig({ OJS_PORT: 'tcp://10.0.0.1:8080' })
    expect(read).toThrow('enableServiceLinks: false')
  })
})

describe('a secret in a file', () => {
  const directory = temporaryDirectory()
  afterAll(() => directory.remove())
  const file = (text: string) => {
    const path = join(directory.path, 'secret')
    writeFileSync(path, text)
    return path
  }
  const entry = `ops:admin:${'ab'.repeat(32)}`

  it('has the same effect as one in the environment', () => {
    const keys = readConfig({ OJS_API_KEYS_FILE: file(`${entry}\n`), OJS_HOST: '0.0.0.0' })
    expect(keys.config.access.apiKeys).toMatchObject([{ name: 'ops', role: 'admin' }])
    const env = { OJS_AMQP_URL_FILE: file('amqp://u:p@a,amqp://b\r\n'), AMQP_URL: 'amqp://c' }
    expect(readConfig(env).config.amqpUrls).toEqual(['amqp://u:p@a', 'amqp://b'])
    expect(readConfig({ OJS_API_KEYS_FILE: '' }).config.access.apiKeys).toEqual([])
  })

  it('is refused when the environment has the secret, too', () => {
    const env = { OJS_API_KEYS: entry, OJS_API_KEYS_FILE: file(entry) }
    expect(() => readConfig(env)).toThrow('OJS_API_KEYS and OJS_API_KEYS_FILE are both set')
  })

  it.each(['', '\n', ' \n'])('is refused when the file is empty: %j', (text) => {
    const path = file(text)
    const message = messageOf(() => readConfig({ OJS_API_KEYS_FILE: path }))
    expect(message).toBe(`OJS_API_KEYS_FILE: '${path}' is empty`)
  })

  it('is refused when the file cannot be read', () => {
    const path = join(directory.path, 'none')
    const message = messageOf(() => readConfig({ OJS_API_KEYS_FILE: path }))
    expect(message).toBe(`OJS_API_KEYS_FILE: '${path}' cannot be read (ENOENT)`)
  })

  it('is not shown in an error about it', () => {
    const env = { OJS_API_KEYS_FILE: file('secret'), OJS_AMQP_URL_FILE: file('secret') }
    expect(messageOf(() => readConfig(env))).not.toContain("secret'")
  })
})

describe('OJS_HOST', () => {
  it.each([' ', 'two words', '[::1]', '[localhost]', '127.0.0.1:8080', 'http://localhost', 'a/b'])(
    "refuses '%s', which is not an address or host name",
    (host) => {
      // Whether the host needs keys is not checked for an invalid host.
      expect(messageOf(() => readConfig({ OJS_HOST: host }))).toBe(
        `OJS_HOST must be an address or a host name, without brackets and port, not '${host}'`,
      )
    },
  )

  it.each(['::1', '127.0.0.1', 'localhost', 'fe80::1%eth0', 'my_host.internal', 'bücher.example'])(
    'accepts %s',
    (host) => {
      expect(readConfig({ OJS_HOST: host, OJS_ALLOW_OPEN: '1' }).config.host).toBe(host)
    },
  )
})

describe('access without API keys', () => {
  const HASH = 'ab'.repeat(32)
  const keys = { OJS_API_KEYS: `ops:admin:${HASH}` }

  it.each(['127.0.0.1', '127.255.255.254', '::1', 'localhost', 'LOCALHOST'])(
    'is allowed on %s',
    (host) => {
      expect(readConfig({ OJS_HOST: host }).config.host).toBe(host)
    },
  )

  it.each([
    ...['0.0.0.0', '::', '10.0.0.1', '126.255.255.255', '128.0.0.1', '::ffff:10.0.0.1'],
    ...['gateway.internal', 'localhost.internal'],
  ])('is refused on %s, unless OJS_ALLOW_OPEN or OJS_API_KEYS is set', (host) => {
    const message = messageOf(() => readConfig({ OJS_HOST: host }))
    expect(message).toContain(`OJS_HOST=${host} is reachable from outside`)
    expect(message).toContain('OJS_API_KEYS')
    expect(message).toContain('OJS_ALLOW_OPEN=1')
    expect(() => readConfig({ OJS_HOST: host, OJS_ALLOW_OPEN: '0' })).toThrow(ConfigError)
    expect(() => readConfig({ OJS_HOST: host, OJS_TLS_CERT: 'a', OJS_TLS_KEY: 'b' })).toThrow(
      'reachable from outside',
    )
    expect(readConfig({ OJS_HOST: host, OJS_ALLOW_OPEN: '1' }).config.host).toBe(host)
    expect(readConfig({ OJS_HOST: host, ...keys }).config.access.apiKeys).toHaveLength(1)
  })

  it('is refused without showing a hash of OJS_API_KEYS', () => {
    const message = messageOf(() => readConfig({ OJS_API_KEYS: `ops:king:${HASH},${HASH}` }))
    expect(message.split('\n')).toHaveLength(2)
    expect(message).not.toContain('abab')
  })

  it('TLS needs both the certificate and the key', () => {
    const files = { OJS_TLS_CERT: 'c.pem', OJS_TLS_KEY: 'k.pem' }
    expect(readConfig(files).config.access.tls).toEqual({ cert: 'c.pem', key: 'k.pem' })
    expect(readConfig({ ...files, OJS_TLS_CA: 'ca.pem' }).config.access.tls?.ca).toBe('ca.pem')
    for (const name of ['OJS_TLS_CERT', 'OJS_TLS_KEY', 'OJS_TLS_CA']) {
      expect(() => readConfig({ [name]: 'x.pem' })).toThrow('both OJS_TLS_CERT and OJS_TLS_KEY')
    }
  })

  it('OJS_API_KEY, a variable of clients, is ignored unless it has the form of OJS_API_KEYS', () => {
    expect(readConfig({ OJS_API_KEY: 'ojs_x' }).warnings).toEqual([])
    const message = messageOf(() => readConfig({ OJS_API_KEY: `ops:admin:${HASH}` }))
    expect(message).toContain('did you mean OJS_API_KEYS?')
    expect(message).not.toContain('abab')
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
