import { defineConfig } from 'vitest/config'

const EVERY_TEST = 'test/**/*.test.{ts,mjs}'
const SERVICES = 'test/**/*.services.test.{ts,mjs}'
const CONFORMANCE = 'test/conformance/**/*.test.{ts,mjs}'
const CRASH = 'test/crash/**/*.test.{ts,mjs}'

// Run all of them with `npm test`: it starts the RabbitMQ node that everything but `unit` needs.
// A machine with two cores is the measure: a real broker and a gateway are busy beside the tests.
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: 'unit',
          include: [EVERY_TEST],
          exclude: [SERVICES, CONFORMANCE, CRASH],
          // A property takes a second; five times that on a machine that others use too.
          testTimeout: 30_000,
          // Two cores: vitest would leave one of them idle.
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          name: 'services',
          include: [SERVICES],
          exclude: [CONFORMANCE, CRASH],
          testTimeout: 20_000,
          hookTimeout: 60_000,
          // They mostly wait for the broker.
          maxWorkers: 3,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          name: 'conformance',
          include: [CONFORMANCE],
          testTimeout: 20_000,
          hookTimeout: 60_000,
          maxWorkers: 2,
          // `npm test` runs it beside all others, in a process of its own (scripts/run-tests.mjs).
          sequence: { groupOrder: 2 },
        },
      },
      {
        test: {
          name: 'crash',
          include: [CRASH],
          testTimeout: 120_000,
          hookTimeout: 120_000,
          // Each file has a broker of its own; they wait for it most of the time.
          maxWorkers: 2,
          sequence: { groupOrder: 3 },
        },
      },
    ],
  },
})
