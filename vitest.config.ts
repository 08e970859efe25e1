import { readdirSync, readFileSync } from 'node:fs'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

const EVERY_TEST = 'test/**/*.test.{ts,mjs}'
const SERVICES = 'test/**/*.services.test.{ts,mjs}'
const CONFORMANCE = 'test/conformance/**/*.test.{ts,mjs}'
const CRASH = 'test/crash/**/*.test.{ts,mjs}'

/**
 * These replace whole modules, register themselves for the whole process or measure its memory, so
 * each gets a process of its own. The others share theirs: to load what they import took half of the
 * time of all unit tests, and a tenth of the others.
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
 * What comes first, by project and file. The crashes come before the others, the longest ones at the
 * head: their nodes start and die for minutes, and the run would wait for the last of them. Of what only
 * computes, the files that take 20 s and more come before the many that take none.
 */
const ORDER = [
  /^crash .*\/crash\.test\.ts$/,
  /^crash .*\/faults\/faults\.test\.ts$/,
  /^crash .*\/faults\/new-queues\.test\.ts$/,
  /^crash .*\/faults\/native-worker\.test\.ts$/,
  /^crash /,
  /^services-isolated /,
  /^services /,
  /^unit .*\/(ledger\/sqlite|properties\/sqlite-ledger)\.test\.ts$/,
  /^unit /,
]

/** As long as `eventually`: vitest would give up after 1 s, and a busy machine stops for 3 to 5 s. */
const EXPECT = { poll: { timeout: 15_000 } }

/**
 * Two cores: vitest would leave one of them idle, and most tests wait for something. With four of
 * them a quarter of the time was idle, with six next to nothing, but the tests beside each other
 * waited long.
 */
const WORKERS = 5

/** All projects but one are one group, so that none waits for the last of another. */
const TOGETHER = { sequence: { groupOrder: 0 }, expect: EXPECT }

const UNIT = {
  ...TOGETHER,
  // A property takes 5 to 15 s; eight times that on a machine that many others use too (load 35).
  testTimeout: 180_000,
}

const SHARING_A_BROKER = {
  ...TOGETHER,
  // Several waits of 30 s, the limit of one: what takes 8 s alone, as two calls of rabbitmqctl and the start
  // of a node, took a minute with load 20. A test that hangs is told by its waits, and not by this.
  testTimeout: 180_000,
  hookTimeout: 120_000,
}

class InOrder extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    return sorted.toSorted((a, b) => rank(a) - rank(b))
  }
}

/** Those that share a process come together: it ends where another project comes next. */
function rank({ moduleId, project }: TestSpecification): number {
  const place = ORDER.findIndex((which) => which.test(`${project.name} ${moduleId}`))
  return place === -1 ? ORDER.length : place
}

// Run all of them with `npm test`: it starts the RabbitMQ node that everything but `unit` needs.
// A machine with two cores is the measure: a real broker and a gateway are busy beside the tests.
export default defineConfig({
  test: {
    maxWorkers: WORKERS,
    sequence: { sequencer: InOrder },
    projects: [
      {
        test: {
          ...UNIT,
          name: 'unit',
          include: [EVERY_TEST],
          exclude: [SERVICES, CONFORMANCE, CRASH, ...ISOLATED],
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
          // `npm test` runs it beside all others, in a process of its own (scripts/run-tests.mjs).
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          ...TOGETHER,
          name: 'crash',
          include: [CRASH],
          // 20 to 40 s each; four times that where others use the machine too.
          testTimeout: 240_000,
          // Each file has a broker of its own.
          hookTimeout: 120_000,
        },
      },
    ],
  },
})
