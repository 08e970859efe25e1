import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'

const ROOT = resolve(import.meta.dirname, '..')
const SRC = join(ROOT, 'src')

/** A source file with what it imports: packages by name, own files by their path below src/. */
interface Source {
  file: string
  lines: number
  imports: { target: string; isPackage: boolean }[]
}

const sources = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter((file) => /\.tsx?$/.test(file))
  .map((file) => read(join(SRC, file)))

function read(path: string): Source {
  const text = readFileSync(path, 'utf8')
  // No `;` or `=` between the keyword and `from`, so that prose with the word "import" is no statement.
  const statements = text.matchAll(
    /^(?:import|export)\s+(?:type\s+)?(?:[^;='"]*?\sfrom\s+)?['"]([^'"]+)['"]/gm,
  )
  const loaded = text.matchAll(/\bimport\('([^']+)'\)/g)
  return {
    file: relative(SRC, path),
    lines: text.split('\n').length - 1,
    imports: [...statements, ...loaded].map(([, target = '']) => ({
      target: target.startsWith('.') ? relative(SRC, resolve(dirname(path), target)) : target,
      isPackage: !target.startsWith('.'),
    })),
  }
}

const AT_THE_TOP = [
  'insertion-ordered-map.ts',
  'clock.ts',
  'errors.ts',
  'lifecycle.ts',
  'logger.ts',
  'memory.ts',
  'slices.ts',
  'slots.ts',
  'uuid.ts',
]

/**
 * Who may import whom (docs/architecture.md): rules import nothing; decisions import contracts; only
 * the composition root imports implementations. A path that ends in `/` stands for a folder.
 */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  'job/': ['errors.ts'],
  'schemas/': ['job/', 'errors.ts'],
  'ledger/': ['job/', ...AT_THE_TOP],
  'broker/': ['job/', ...AT_THE_TOP],
  'telemetry/': [
    'job/',
    'broker/observer.ts',
    'ledger/ledger.ts',
    'ledger/search.ts',
    'sdk/trace-context.ts',
    ...AT_THE_TOP,
  ],
  'operations/': [
    'job/',
    'schemas/',
    'ledger/ledger.ts',
    'ledger/audit.ts',
    'ledger/bulk.ts',
    'ledger/concurrency.ts',
    'ledger/cron.ts',
    'ledger/dead-letters.ts',
    'ledger/leases.ts',
    'ledger/ended.ts',
    'ledger/enqueued.ts',
    'ledger/history.ts',
    'ledger/idempotency.ts',
    'ledger/known.ts',
    'ledger/maintenance.ts',
    'ledger/native.ts',
    'ledger/progress.ts',
    'ledger/schemas.ts',
    'ledger/search.ts',
    'ledger/queues.ts',
    'ledger/queue-settings.ts',
    'ledger/workflows.ts',
    'broker/broker.ts',
    'broker/broker-errors.ts',
    'telemetry/events.ts',
    'telemetry/tracing.ts',
    'dialect.ts',
    ...AT_THE_TOP,
  ],
  'services/': [
    'operations/',
    'job/',
    'ledger/ledger.ts',
    'broker/broker.ts',
    'telemetry/tracing.ts',
    ...AT_THE_TOP,
  ],
  'control/': ['operations/', 'schemas/', 'job/', 'broker/broker.ts', 'telemetry/', ...AT_THE_TOP],
  'http/': ['operations/', 'schemas/', 'job/', 'telemetry/', 'dialect.ts', ...AT_THE_TOP],
  'worker/': [
    'sdk/',
    'job/',
    'schemas/',
    'broker/',
    'telemetry/amqp-metrics.ts',
    'telemetry/bounded-labels.ts',
    'telemetry/gauges.ts',
    'telemetry/tracing.ts',
    ...AT_THE_TOP,
  ],
  'sdk/': [],
  'config/': [
    'job/',
    'broker/names.ts',
    'broker/connection/urls.ts',
    'ledger/postgres/address.ts',
    'http/access/',
    'dialect.ts',
    ...AT_THE_TOP,
  ],
  'testing/': ['config/config.ts', 'gateway.ts', 'logger.ts'],
  // It speaks the API, and shares no code with the server.
  'console/': [],
}

const ROOT_FILES = new Set([
  'main.ts',
  'index.ts',
  'gateway.ts',
  'dialect.ts',
  'failover.ts',
  'log-output.ts',
  'own-version.ts',
  ...AT_THE_TOP,
])

describe('the sources', () => {
  it('each begin with a line that says what the file is for', () => {
    const silent = sources
      .map(({ file }) => file)
      // OJS's own schemas stand in its own words.
      .filter((file) => !file.startsWith('schemas/ojs/'))
      .filter((file) => {
        const [first = ''] = readFileSync(join(SRC, file), 'utf8')
          .replace(/^#!.*\n/, '')
          .split('\n')
        // A migration explains itself at length.
        return !(file.includes('/migrations/') ? /^\/\*\*/ : /^(\/\*\* .+ \*\/|\/\/ .+)$/).test(
          first,
        )
      })
    expect(silent).toEqual([])
  })

  it('have an import rule for every folder', () => {
    const folders = new Set(sources.map(({ file }) => file.split('/')[0] ?? ''))
    const ruled = Object.keys(MAY_IMPORT).map((folder) => folder.slice(0, -1))
    const unruled = [...folders].filter(
      (name) => !ruled.includes(name) && name !== 'cli' && !ROOT_FILES.has(name),
    )
    expect(unruled).toEqual([])
  })

  it.each(Object.entries(MAY_IMPORT))(
    'in %s import only what their rule allows',
    (folder, allowed) => {
      const own = sources.filter(({ file }) => file.startsWith(folder))
      expect(own.length).toBeGreaterThan(0)
      const wrong = own.flatMap(({ file, imports }) =>
        imports
          .filter(({ isPackage, target }) => !isPackage && !isAllowed(target, [folder, ...allowed]))
          .map(({ target }) => `${file} imports ${target}`),
      )
      expect(wrong).toEqual([])
    },
  )

  it.each<[string, string, readonly string[]]>([
    ['amqplib', 'broker/', []],
    ['@photostructure/sqlite', 'ledger/sqlite/sql/driver.ts', []],
    ['node:sqlite', 'ledger/sqlite/sql/driver.ts', []],
    ['pg', 'ledger/postgres/connection.ts', []],
    ['express', 'http/', []],
    ['openid-client', 'http/access/oidc/provider.ts', []],
    ['cors', 'http/access/cors.ts', []],
    ['prom-client', 'telemetry/', []],
    ['pino', 'logger.ts', []],
    ['re2js', 'schemas/args/pattern.ts', []],
    ['uuid', 'uuid.ts', ['sdk/job.ts', 'sdk/job-id.ts']],
    ['croner', 'job/cron/expression.ts', []],
    ['eventsource-parser', 'sdk/client/events.ts', ['console/api/stream.ts']],
    ['commander', 'cli/', []],
    ['testcontainers', 'testing/rabbitmq-container.ts', []],
    ['cli-table3', 'cli/', []],
    ['cli-progress', 'cli/', []],
    [
      '@opentelemetry/api',
      'telemetry/tracing.ts',
      ['sdk/trace-context.ts', 'sdk/worker/tracing.ts'],
    ],
  ])('import the package %s in %s only', (name, owner, others) => {
    const importers = sources
      .filter(({ imports }) => imports.some(({ target }) => target === name))
      .map(({ file }) => file)
    expect(importers.filter((file) => !isAllowed(file, [owner, ...others]))).toEqual([])
  })

  it('in job/ import nothing that does I/O', () => {
    const packages = sources
      .filter(({ file }) => file.startsWith('job/'))
      .flatMap(({ imports }) => imports.filter(({ isPackage }) => isPackage))
      .map(({ target }) => target)
    // croner is a pure library here: it counts on a calendar and starts no timer.
    expect(packages.filter((name) => !['node:crypto', 'croner'].includes(name))).toEqual([])
  })

  it('in sdk/ import no package that does not run in a browser', () => {
    const packages = sources
      .filter(({ file }) => file.startsWith('sdk/'))
      .flatMap(({ imports }) => imports.filter(({ isPackage }) => isPackage))
      .map(({ target }) => target)
    expect(
      packages.filter(
        (name) => !['uuid', '@opentelemetry/api', 'eventsource-parser'].includes(name),
      ),
    ).toEqual([])
  })

  it('in console/ import only packages that are built into its page', () => {
    const packages = sources
      .filter(({ file }) => file.startsWith('console/'))
      .flatMap(({ imports }) => imports.filter(({ isPackage }) => isPackage))
      .map(({ target }) => target)
    const built =
      /^(react|react-dom\/client|uplot|uplot\/dist\/uPlot\.min\.css|@tanstack\/[\w-]+|cronstrue(\/locales\/\w+)?|@xyflow\/react(\/dist\/base\.css)?|@dagrejs\/dagre|eventsource-parser)$/
    expect(packages.filter((name) => !built.test(name))).toEqual([])
  })

  it('import main.ts, index.ts and gateway.ts where a gateway is started only', () => {
    const edge = new Set(['main.ts', 'index.ts', 'gateway.ts'])
    const importers = sources
      .filter(({ imports }) => imports.some(({ target }) => edge.has(target)))
      .map(({ file }) => file)
    expect(importers.sort()).toEqual(['cli/serve.ts', 'index.ts', 'testing/index.ts'])
  })

  it('call process.exit in main.ts only', () => {
    const calls = sources
      .filter(({ file }) => file !== 'main.ts')
      .filter(({ file }) => /process\.exit\(|\bexit\(/.test(readFileSync(join(SRC, file), 'utf8')))
    expect(calls.map(({ file }) => file)).toEqual([])
  })
})

function isAllowed(target: string, allowed: readonly string[]): boolean {
  return allowed.some((entry) =>
    entry.endsWith('/') ? target.startsWith(entry) : target === entry,
  )
}

/**
 * The sub-folders of a folder, in the order in which a byte travels outwards: each may import those before it.
 * Of the files beside them, sub-folders may import what `shared` names; these may import no sub-folder.
 */
const FLOORS: Readonly<Record<string, { order: readonly string[]; shared: RegExp }>> = {
  'broker/': {
    order: [
      'messages',
      'amqplib',
      'connection',
      'topology',
      'monitoring',
      'publish',
      'consume',
      'control',
    ],
    shared: /^broker\/(broker|broker-errors|names|observer|options|availability)\.ts$/,
  },
  'console/': {
    order: ['text', 'api', 'search', 'ui', 'pages', 'app'],
    shared: /^$/,
  },
  'http/': {
    order: ['message', 'access', 'openapi', 'connection', 'console', 'routes'],
    shared: /^http\/(route)\.ts$/,
  },
  'job/': {
    order: [
      ...['values', 'search', 'retry', 'history', 'native', 'cron', 'trace', 'transitions'],
      'workflow',
    ],
    shared: /^job\/[\w-]+\.ts$/,
  },
  'ledger/postgres/': {
    order: ['group', 'search', 'records', 'queues', 'keyed', 'writes', 'parts'],
    shared: /^ledger\/postgres\/(connection|nul|slot|part|reader)\.ts$/,
  },
  'ledger/sqlite/': {
    order: ['sql', 'commit', 'state', 'search', 'concurrency', 'writes', 'keyed', 'bulk'],
    shared: /^$/,
  },
  'operations/': {
    order: [
      ...['workers', 'job-messages', 'queues', 'enqueue', 'lease', 'adopt', 'native', 'fetch'],
      ...['search', 'steer', 'dead-letters', 'cron', 'workflows'],
    ],
    shared: /^operations\/[\w-]+\.ts$/,
  },
  'schemas/': { order: ['ojs', 'json', 'args', 'requests'], shared: /^schemas\/[\w-]+\.ts$/ },
  'sdk/': {
    order: ['async', 'transport', 'worker', 'client', 'testing'],
    shared: /^sdk\/(job|middleware|trace-context)\.ts$/,
  },
}

/** Files of sub-folders: which of `order` they are in, and -1 for a file right below the folder. */
function floorOf(folder: string, order: readonly string[], file: string): number {
  const [first = '', rest] = file.slice(folder.length).split('/')
  return rest === undefined ? -1 : order.indexOf(first)
}

describe.each(Object.entries(FLOORS))('the sub-folders of %s', (folder, { order, shared }) => {
  const own = sources.filter(({ file }) => file.startsWith(folder))

  it('are exactly those whose order is known', () => {
    const found = own.flatMap(({ file }) => {
      const [first = '', rest] = file.slice(folder.length).split('/')
      return rest === undefined || first === 'migrations' ? [] : [first]
    })
    expect(new Set(found)).toEqual(new Set(order))
  })

  it('import only those before them, and the shared files', () => {
    const wrong = own.flatMap(({ file, imports }) => {
      const floor = floorOf(folder, order, file)
      const isWrong = (target: string) =>
        target.startsWith(folder) &&
        floor >= 0 &&
        (floorOf(folder, order, target) > floor ||
          (floorOf(folder, order, target) === -1 && !shared.test(target)))
      return imports
        .filter(({ isPackage, target }) => !isPackage && isWrong(target))
        .map(({ target }) => `${file} imports ${target}`)
    })
    expect(wrong).toEqual([])
  })
})

it('no source imports itself over others, not even for its types', () => {
  const imports = new Map(
    sources.map((source) => [
      source.file,
      source.imports.filter(({ isPackage }) => !isPackage).map(({ target }) => target),
    ]),
  )
  const circles: string[] = []
  const done = new Set<string>()
  const visit = (file: string, path: readonly string[]): void => {
    if (path.includes(file)) circles.push([...path.slice(path.indexOf(file)), file].join(' → '))
    if (path.includes(file) || done.has(file)) return
    for (const target of imports.get(file) ?? []) visit(target, [...path, file])
    done.add(file)
  }
  for (const file of imports.keys()) visit(file, [])
  expect(circles).toEqual([])
})

it('every patch of a package says when it can be deleted', () => {
  // These two only call amqplib, or are part of another patch.
  const noPatches = ['broker/amqplib/connect.ts', 'broker/amqplib/frame-writer.ts']
  const patches = sources
    .map(({ file }) => file)
    .filter((file) => file.startsWith('broker/amqplib/') && !noPatches.includes(file))
  expect(patches).toHaveLength(5)
  for (const file of [...patches, 'http/message/request.ts']) {
    expect(readFileSync(join(SRC, file), 'utf8'), file).toContain('Delete when')
  }
})

describe('the folders of the sources', () => {
  const files = (folder: string) => sources.filter(({ file }) => dirname(file) === folder)
  const folders = new Set(sources.map(({ file }) => dirname(file)))

  it('have at most 25 files, apart from migrations', () => {
    const crowded = [...folders].filter(
      (folder) => files(folder).length > 25 && !folder.endsWith('/migrations'),
    )
    expect(crowded).toEqual([])
  })
})

describe('README', () => {
  const readme = readFileSync(join(ROOT, 'README.md'), 'utf8')

  it('is short: the rest is in docs/', () => {
    expect(readme.split('\n').length).toBeLessThanOrEqual(220)
    expect(Buffer.byteLength(readme)).toBeLessThanOrEqual(12_000)
  })
})

it('docs/reference/configuration.md lists every variable', async () => {
  const page = readFileSync(join(ROOT, 'docs/reference/configuration.md'), 'utf8')
  const { VARIABLES } = await import('../src/config/variables.ts')
  for (const name of Object.keys(VARIABLES)) expect(page).toContain(`\`${name}\``)
})

describe('the README of each folder of src/', () => {
  const folders = ['.', ...new Set(sources.map(({ file }) => dirname(file)))].filter(
    (folder) => !folder.endsWith('/ojs'),
  )

  it.each(folders)('%s: at most 15 lines, with files that exist and what they export', (folder) => {
    const path = join(SRC, folder, 'README.md')
    expect(existsSync(path), path).toBe(true)
    const text = readFileSync(path, 'utf8')
    expect(text.trimEnd().split('\n').length).toBeLessThanOrEqual(15)
    // `file.ts`: `symbol`, `symbol`
    for (const [, file = '', symbols = ''] of text.matchAll(
      /`([\w./-]+\.tsx?)`(?:: ((?:`\w+`(?:, )?)+))?/g,
    )) {
      const places = [join(SRC, folder), SRC, ROOT].map((place) => join(place, file))
      const target = places.find((place) => existsSync(place)) ?? ''
      expect(target, `${folder}/${file}`).not.toBe('')
      const source = readFileSync(target, 'utf8')
      for (const [, symbol = ''] of symbols.matchAll(/`(\w+)`/g)) {
        expect(source, `${symbol} in ${folder}/${file}`).toMatch(new RegExp(`\\b${symbol}\\b`))
      }
    }
  })
})
