import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { findBroker } from '../../../scripts/broker/find-broker.mjs'
import { requireRabbitmqSbin } from '../../../scripts/broker/rabbitmq-package.mjs'

/** What happens on a Debian without RabbitMQ, as root, in order. Nothing is written or run for real. */
const events = vi.hoisted(() => /** @type {string[]} */ ([]))

vi.mock('node:fs', async (original) => ({
  ...(await original()),
  existsSync: (path) => path === '/etc/debian_version',
  writeFileSync: () => {},
  chmodSync: () => {},
  renameSync: () => {},
  rmSync: () => {},
}))
vi.mock('../../../scripts/process/ports.mjs', async (original) => ({
  ...(await original()),
  isPortFree: async () => true,
}))
vi.mock('../../../scripts/process/run.mjs', async (original) => ({
  ...(await original()),
  findExecutable: (name) => (name === 'apt-get' ? '/usr/bin/apt-get' : undefined),
  run: async (command, args) => {
    events.push(`${command} ${args.join(' ')}`)
    return { code: 0, signal: null, output: '' }
  },
}))

beforeEach(() => {
  events.length = 0
  for (const name of ['OJS_AMQP_URL', 'OJS_AMQP_URL_FILE', 'AMQP_URL']) vi.stubEnv(name, '')
  vi.spyOn(process, 'getuid').mockReturnValue(0)
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => events.push(text))
})
afterEach(() => {
  vi.unstubAllEnvs()
  vi.restoreAllMocks()
})

it('npm start says what it installs as root, and how to avoid it, before it does', async () => {
  await expect(findBroker(new AbortController().signal)).rejects.toThrow('is installed, but not')
  expect(events[0]).toBe(
    "Installing Debian's rabbitmq-server as root (apt-get; starts no service). To avoid it: " +
      'set OJS_AMQP_URL to a broker of your own, or install it yourself.\n',
  )
  expect(events.slice(1).join('\n')).toContain(
    'install -y -q --no-install-recommends rabbitmq-server',
  )
})

it('npm test says so too; there, a broker of the user’s own would not help', async () => {
  await expect(requireRabbitmqSbin(['curl'])).rejects.toThrow('is installed, but not')
  expect(events[0]).toBe(
    "Installing Debian's rabbitmq-server, curl as root (apt-get; starts no service). To avoid it: " +
      'install it yourself, or run this as another user than root.\n',
  )
})
