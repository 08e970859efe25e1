import { readdirSync, readFileSync } from 'node:fs'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

const EVERY_TEST = 'test/**/*.test.{ts,mjs}'
const SERVICES = 'test/**/*.services.test.{ts,mjs}'
const CONFORMANCE = 'test/conformance/**/*.test.{ts,mjs}'
const CRASH = 'test/crash/**/*.test.{ts,mjs}'
const BROWSER = 'test/browser/**/*.test.ts'
const PROPERTIES = 'test/properties/**/*.test.{ts,mjs}'

/**
 * These files replace whole modules, register themselves for the whole process or measure its memory, so each
 * gets its own process. The other files share processes: loading their imports again and again took half of
 * the time of all unit tests, and a tenth of the time of the others.
 */
const ISOLATED = testFiles().filter((file) =>
  /\bvi\.mock\(|\/support\/spans\.ts'|\bmemoryUsage\(/.test(readFileSync(file, 'utf8')),
)
const ISOLATED_SERVICES = ISOLATED.filter((file) => file.includes('.services.test.'))

function testFiles(): string[] {
  return readdirSync('test', { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.test\.(ts|mjs)$/.test(name))
    .map((name) => `test/${name}`)
}

/**
 * The order of the test files, by project and file. Crash tests come first, the longest ones at the head:
 * their nodes start and die for minutes, and the run would otherwise wait for the last of them. The others
 * are in vitest's order, which has large files first where it knows no durations, but for those that take 20
 * s or more although they are small.
 */
const ORDER = [
  /^crash .*\/crash\.test\.ts$/,
  /^crash .*\/faults\/faults\.test\.ts$/,
  /^crash .*\/faults\/new-queues\.test\.ts$/,
  /^crash .*\/faults\/native-worker\.test\.ts$/,
  /^crash /,
  /^services-isolated /,
  /^services .*\/(properties\/.*|small-heap|cron-crash|workflow-crash|resilience)\./,
  /^services .*\/(channel-limit|node-down|private-node|start|seed-retries|give-back)\./,
  /^services /,
  /^properties /,
  /^unit .*\/ledger\/sqlite\/contract\.test\.ts$/,
  /^unit /,
]

/** The same timeout as `eventually`. vitest's default is 1 s, while a busy machine may stop for 3 to 5 s. */
const EXPECT = { poll: { timeout: 15_000 } }

/**
 * For two cores. vitest's default would leave one of them idle, and most tests wait for something. With four
 * workers a quarter of the time was idle; with six next to nothing, but tests that ran side by side delayed
 * each other.
 */
const WORKERS = 5

/** One group for all projects but `conformance`, so that no project waits for the last test of another. */
const TOGETHER = { sequence: { groupOrder: 0 }, expect: EXPECT }

const UNIT = {
  ...TOGETHER,
  // A property test takes 5 to 15 s, and eight times that on a machine that many others use too (load 35).
  testTimeout: 180_000,
}

const SHARING_A_BROKER = {
  ...TOGETHER,
  // Room for several waits of 30 s, which is the limit of a single one. Two calls of rabbitmqctl and the
  // start of a node take 8 s on an idle machine, and took a minute with load 20. A test that hangs is
  // detected by its waits, not by this.
  testTimeout: 180_000,
  hookTimeout: 120_000,
}

class InOrder extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    return sorted.toSorted((a, b) => rank(a) - rank(b))
  }
}

/** Keeps a project's files together: vitest ends a shared process when another project's file follows. */
function rank({ moduleId, project }: TestSpecification): number {
  const place = ORDER.findIndex((which) => which.test(`${project.name} ${moduleId}`))
  return place === -1 ? ORDER.length : place
}

// Run all projects with `npm test`, which starts the RabbitMQ node that all but the unit and crash tests
// share. The numbers are for a machine with two cores, on which a real broker and a gateway are busy beside
// the tests.
export default defineConfig({
  test: {
    maxWorkers: WORKERS,
    // Below node_modules, by content: that saves a tenth of the CPU of a later run.
    experimental: { fsModuleCache: true },
    sequence: { sequencer: InOrder },
    // The provider of the sign-in tests warns that it is one for tests.
    onConsoleLog: (log) => !log.startsWith('oidc-provider '),
    projects: [
      {
        test: {
          ...UNIT,
          name: 'unit',
          include: [EVERY_TEST],
          exclude: [SERVICES, CONFORMANCE, CRASH, BROWSER, PROPERTIES, ...ISOLATED],
          isolate: false,
        },
      },
      {
        test: {
          ...UNIT,
          name: 'unit-isolated',
          include: ISOLATED,
          exclude: [SERVICES, CONFORMANCE, CRASH],
        },
      },
      {
        // Random operations for half a minute of CPU, which `npm run check` leaves to `npm test`.
        test: {
          ...UNIT,
          name: 'properties',
          include: [PROPERTIES],
          exclude: [SERVICES],
          isolate: false,
        },
      },
      {
        test: {
          ...SHARING_A_BROKER,
          name: 'services',
          include: [SERVICES],
          exclude: [CONFORMANCE, CRASH, ...ISOLATED],
          isolate: false,
        },
      },
      {
        test: { ...SHARING_A_BROKER, name: 'services-isolated', include: ISOLATED_SERVICES },
      },
      {
        test: {
          name: 'conformance',
          include: [CONFORMANCE],
          testTimeout: 20_000,
          expect: EXPECT,
          hookTimeout: 60_000,
          maxWorkers: 2,
          // `npm test` runs this project beside all others, as a vitest process of its own
          // (scripts/test/run-tests.mjs).
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          ...TOGETHER,
          name: 'browser',
          include: [BROWSER],
          // `npm test` runs this project by itself, one Chromium after the other (scripts/test/run-tests.mjs).
          isolate: false,
          // Room for several waits for what the page shows.
          testTimeout: 180_000,
          hookTimeout: 120_000,
        },
      },
      {
        test: {
          ...TOGETHER,
          name: 'crash',
          include: [CRASH],
          // A test takes 20 to 40 s, and four times that when others use the machine too.
          testTimeout: 240_000,
          // Each file has a broker of its own.
          hookTimeout: 120_000,
        },
      },
    ],
  },
})
