import { parseArgs } from 'node:util'

const USAGE = `npm run bench -- [options]

  --rounds N      measured rounds of each row, after one warm-up round (default 5)
  --seconds N     length of a round (default 10)
  --only NAMES    rows whose name contains one of these, comma-separated; the names:
                  push-classic, unique-classic, batch-classic, latency-classic, flow-classic,
                  drain-classic, workflows-classic, worker-classic, native-classic,
                  start-latency-classic, half-load-classic, producer-classic,
                  fleet-classic, schedules-classic, native-alone-classic, ledger-classic,
                  ledgers-classic, backlog-classic and the same with quorum
  --quick         2 rounds of 2 seconds, a backlog of 20,000: a check that the rows run
  --patient       wait for a quiet machine before each round, and repeat a disturbed one
  --ledger URL    with this ledger, for example postgres://…, or postgres: for a PostgreSQL of
                  the benchmark's own; default: a file of SQLite
  --broker-root DIR
                  with the RabbitMQ of the Debian below this folder (bench/README.md)
  --gateway FILE  measure this build instead of dist/main.js
  --profile DIR   write CPU profiles of the gateway, the workers and the producer there and
                  print where the time of each row goes`

/**
 * Returns the options; undefined after `--help`.
 * @param {string[]} args
 */
export function readOptions(args) {
  const { values } = parseArgs({
    args,
    options: {
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      only: { type: 'string', default: '' },
      quick: { type: 'boolean', default: false },
      patient: { type: 'boolean', default: false },
      ledger: { type: 'string' },
      'broker-root': { type: 'string' },
      gateway: { type: 'string' },
      profile: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) {
    console.log(USAGE)
    return undefined
  }
  return {
    ...values,
    brokerRoot: values['broker-root'],
    rounds: positive('rounds', values.rounds ?? (values.quick ? '2' : '5')),
    seconds: positive('seconds', values.seconds ?? (values.quick ? '2' : '10')),
    only: values.only.split(',').filter((name) => name !== ''),
  }
}

/**
 * @param {string} name
 * @param {string} text
 */
function positive(name, text) {
  const value = Number(text)
  if (Number.isInteger(value) && value > 0) return value
  throw new Error(`--${name} must be a whole number above 0, not '${text}'`)
}
