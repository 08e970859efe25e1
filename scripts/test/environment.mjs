/**
 * How `npm test` tells the test processes what it provides. The names are known only here: scripts/test.mjs
 * sets the variables, test/support/broker/rabbit.ts reads them.
 */
export const testVariables = {
  /** Folder of RabbitMQ's scripts, to start private nodes from. */
  sbin: 'OJS_TEST_RABBITMQ_SBIN',
  /** AMQP URL of the node that all test files share, its vhost `/ojs` included. */
  amqpUrl: 'OJS_TEST_AMQP_URL',
  /** Port of that node's management API. */
  managementPort: 'OJS_TEST_MANAGEMENT_PORT',
  /** URL of the PostgreSQL that all test files share. */
  postgresUrl: 'OJS_TEST_POSTGRES_URL',
  /** `postgres`: the gateways have their ledgers there. */
  ledger: 'OJS_TEST_LEDGER',
  /** The image of RabbitMQ, if the shared servers are containers. */
  image: 'OJS_TEST_IMAGE',
  /** The Python that has Debian's pika. */
  python: 'OJS_TEST_PYTHON',
}

/** Debian's own Go, the one that builds against Debian's packages of Go sources. */
export const DEBIAN_GO = '/usr/bin/go'
export const DEBIAN_GOPATH = '/usr/share/gocode'

/** Debian's own Python: another one that is earlier on the PATH (pyenv …) does not find Debian's pika. */
export const DEBIAN_PYTHON = '/usr/bin/python3'

/** From Debian's package prometheus, with its promtool. */
export const DEBIAN_PROMETHEUS = '/usr/bin/prometheus'

/** Debian's own Chromium, which the tests of the console drive. */
export const DEBIAN_CHROMIUM = '/usr/bin/chromium'
