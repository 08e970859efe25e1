import { expect, it } from 'vitest'
import { actualIn } from '../../../src/broker/connection/channel-error.ts'
import { lossIn } from '../../../src/broker/topology/losses.ts'
import { loadTopology } from '../../../src/broker/topology/topology.ts'

const topology = loadTopology({
  prefix: '',
  queueType: 'classic',
  delayMode: 'ttl',
  topologyPath: null,
})
const wanted = topology.ofQueue('email', '3.10.8').find(({ kind }) => kind === 'job')
if (!wanted) throw new Error('no job queue')
const OURS = {
  'x-dead-letter-exchange': 'ojs.exchange.dlx',
  'x-dead-letter-routing-key': 'email',
}

function loss(given: Record<string, unknown>, over: object = {}): string | null {
  const found = { durable: true, autoDelete: false, arguments: given, ...over }
  return wanted ? lossIn(found, wanted) : null
}

it.each([
  [{ 'x-max-length': 9 }, 'x-max-length 9'],
  [{ 'x-max-length-bytes': 9, 'x-overflow': 'drop-head' }, 'x-max-length-bytes 9'],
  [{ 'x-message-ttl': 0 }, 'after 0 ms'],
  [{ 'x-delivery-limit': 3 }, 'returned 3 times'],
  [{ ...OURS, 'x-message-ttl': 9, 'x-dead-letter-exchange': 'mine' }, "to exchange 'mine'"],
  [{ ...OURS, 'x-message-ttl': 9, 'x-dead-letter-routing-key': 'old' }, 'instead of'],
  [{ ...OURS, 'x-expires': 9 }, 'unused for 9 ms'],
  [{ ...OURS, 'x-queue-type': 'stream' }, 'a stream'],
])('a queue with %j drops messages unseen', (given, text) => {
  expect(loss(given)).toContain(text)
})

it.each([
  {},
  OURS,
  { ...OURS, 'x-max-length': 9, 'x-message-ttl': 9, 'x-delivery-limit': 3 },
  { 'x-dead-letter-exchange': 'ojs.exchange.dlx', 'x-message-ttl': 9 },
  { 'x-max-length': 9, 'x-overflow': 'reject-publish' },
  { 'x-max-length': 9, 'x-overflow': 'reject-publish-dlx' },
  { 'x-delivery-limit': -1 },
  { 'x-delivery-limit': 1_000_000, 'x-max-priority': 3 },
])('a queue with %j does not', (given) => {
  expect(loss(given)).toBeNull()
})

it('a queue that deletes itself does, also with our dead letter exchange', () => {
  expect(loss(OURS, { autoDelete: true })).toContain('auto-delete')
  expect(loss(OURS, { durable: false })).toBeNull()
})

it.each([
  ["received none but current is the value '10' of type 'byte'", 10],
  ["received none but current is the value '1' of type 'longstr'", '1'],
  ["received none but current is the value 'true' of type 'bool'", true],
  ["received 'classic' but current is 'stream'", 'stream'],
  ["received 'true' but current is 'false'", false],
  ["received the value 'a' of type 'longstr' but current is none", undefined],
])('reads the value of the existing queue: %s', (said, value) => {
  const text = `PRECONDITION_FAILED - inequivalent arg 'x' for queue 'q' in vhost '/': ${said}`
  expect(actualIn(text)).toEqual({ argument: 'x', value })
  expect(actualIn('PRECONDITION_FAILED - invalid arg')).toBeNull()
})
