import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { brokerRefusal, publishRefusal, queueRefusal } from '../../../src/broker/broker-errors.ts'

// docs/operate/operations.md tells operators what each `reason` and each warning means.

const ROOT = resolve(import.meta.dirname, '../../..')
const page = readFileSync(join(ROOT, 'docs/operate/operations.md'), 'utf8')

/** Every source file below these folders of `src`. */
function sources(...folders: string[]): string {
  return folders
    .flatMap((folder) =>
      readdirSync(join(ROOT, 'src', folder), { recursive: true })
        .map(String)
        .filter((name) => name.endsWith('.ts'))
        .map((name) => readFileSync(join(ROOT, 'src', folder, name), 'utf8')),
    )
    .join('\n')
}

const found = (text: string, ...patterns: RegExp[]) =>
  patterns
    .flatMap((pattern) => [...text.matchAll(pattern)].flatMap((match) => match.slice(1)))
    .filter((name) => name !== undefined)

/** The names in one column of the table under this heading. */
function listed(heading: string, column: number): string[] {
  const [, section = ''] = page.split(`## ${heading}\n`)
  const [table = ''] = section.split(/^(?:## |`error\.code`)/m)
  return table
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .slice(1)
    .flatMap((line) => found(line.split('|')[column] ?? '', /`(\w+)`/g))
}

const OF_CHANGES = [
  'attempts_exhausted',
  'dead_lettered',
  'deregistered',
  'purged',
  'worker_deregistered',
]

test('docs/operate/operations.md explains exactly the reasons of errors that the sources have', () => {
  const refusals = readFileSync(join(ROOT, 'src/broker/broker-errors.ts'), 'utf8')
  const memory = readFileSync(join(ROOT, 'src/memory.ts'), 'utf8')
  const rendered = `${sources('operations', 'http', 'job', 'schemas')}\n${refusals}\n${memory}`
  const said = [
    'invalid_state_transition',
    ...found(rendered, /\breason: (?:\w+ \? )?'(\w+)'(?: : '(\w+)')?/g),
    ...found(refusals, /^ {2}(?:down|blocked|foreign): \['(\w+)'/gm),
    ...found(
      `${rendered}\n${sources('ledger', 'worker')}`,
      /unavailable\(\s*(?:`[^`]*`|'[^']*'),\s*'(\w+)'/g,
    ),
    // Reasons of skipped runs of cron jobs (docs/reference/metrics.md), of changes in histories and of events.
  ].filter((reason) => !['dst_skip', 'missed', 'dropped', ...OF_CHANGES].includes(reason))
  expect(said.length).toBeGreaterThan(25)
  expect(new Set(listed('What a `reason` means', 2))).toEqual(new Set(said))
})

test('refusals by RabbitMQ have the status in docs/operate/operations.md, and 429 and 503 a Retry-After', () => {
  const [, table = ''] = page.split('## What a `reason` means\n')
  const statusOf = (reason: unknown) =>
    Number(found(table, new RegExp(`^\\| (\\d+) \\|[^|]*\`${reason}\``, 'gm'))[0])
  const publishes = [
    'nacked',
    'returned',
    'unknown',
    'forbidden',
    'denied',
    'too-large',
    'refused',
  ] as const
  const queues = ['lost', 'too-many-queues', 'access-refused', 'unavailable'] as const
  const refusals = [
    ...(['down', 'blocked', 'foreign'] as const).map(brokerRefusal),
    ...publishes.map((outcome) => publishRefusal('q', outcome)),
    ...queues.map((outcome) => queueRefusal('q', outcome)),
  ]
  for (const { details, status, retryAfterSeconds } of refusals) {
    const reason = details?.['reason']
    expect(status, `${reason}`).toBe(statusOf(reason))
    expect(retryAfterSeconds !== undefined, `${reason}`).toBe(status === 503 || status === 429)
  }
})

test('docs/operate/operations.md explains exactly the health warnings that the sources have', () => {
  const files = [
    'connection/channel-limit',
    'connection/connections',
    'topology/entity',
    'monitoring/ledger-epoch',
    'monitoring/empty-ledger-check',
    'monitoring/depth-sampler',
    'monitoring/drift-watch',
    'topology/retry-queues',
    'topology/entity-checker',
  ].map((name) => `broker/${name}`)
  const ledger = [
    'sqlite/running-mark',
    'sqlite/file-watch',
    'postgres/durability',
    'postgres/standing',
  ].map((name) => `ledger/${name}`)
  const text = [
    ...files,
    ...ledger,
    'operations/queues/queue-missing',
    'operations/cron/stopped',
    'operations/prune-hold',
    'operations/maintenance',
  ]
    .map((name) => readFileSync(join(ROOT, 'src', `${name}.ts`), 'utf8'))
    .join('\n')
  const kinds = found(text, /code: `\$\{entity\.entity\}_(\w+)`/g)
  const said = [
    ...found(text, /code: '(\w+)'/g),
    ...kinds.flatMap((kind) => [`queue_${kind}`, `exchange_${kind}`]),
  ]
  expect(new Set(listed('What health says', 1))).toEqual(new Set(said))
})

test('the systemd unit in docs/operate/operations.md runs an existing command, and lets it stop in time', () => {
  const [, unit = ''] = page.match(/```ini\n([\s\S]*?)```/) ?? []
  const setting = (name: string) => unit.match(new RegExp(`^${name}=(.*)$`, 'm'))?.[1] ?? ''
  const { bin } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  expect(setting('ExecStart')).toMatch(`${bin['ojs-rabbitmq'].slice(1)} serve`)
  const serve = readFileSync(join(ROOT, 'src/cli/serve.ts'), 'utf8')
  const [graceMs = ''] = found(serve, /STOP_GRACE_MS = ([\d_]+)/g)
  expect(Number(setting('TimeoutStopSec'))).toBeGreaterThan(Number(graceMs.replace('_', '')) / 1000)
  expect(setting('Restart')).toBe('always')
  expect(unit).toContain(`OJS_LEDGER=sqlite:/var/lib/${setting('StateDirectory')}/`)
})
