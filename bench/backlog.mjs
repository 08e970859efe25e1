import { say } from '../scripts/process/progress.mjs'
import { checkArrived } from './measures.mjs'
import { residentMb } from './meter.mjs'
import { alternate } from './rounds.mjs'
import { ratioOfMedians } from './statistics.mjs'

/**
 * @typedef {import('./stage.mjs').Stage} Stage
 * @typedef {import('./rounds.mjs').Plan} Plan
 */

const BACKLOG = 300_000
const QUICK_BACKLOG = 20_000
const MESSAGE_BYTES = 1024
const CONNECTIONS = 64
/** The jobs that are put into the loop's queue at a time; without a backlog it is never deeper than this. */
const SEGMENT = 1000
/** The prefetch of the gateway's consumers. */
const PREFETCH = 32
/** What an additional string in `args` adds beside its own length: a comma and two quotes. */
const PADDING_OVERHEAD = 3

/**
 * One of the two sides: its queues, and how deep they were before each round.
 *
 * @typedef {object} Side
 * @property {Stage} stage
 * @property {number} size
 * @property {string} ceilingQueue
 * @property {string} queue
 * @property {string} padding
 * @property {import('./table.mjs').JobMessage} jobMessage
 * @property {number[]} depths
 * @property {number} fillRate
 * @property {number} filledRssMb
 */

const LOOP_SIDES = { ceiling: 'no backlog', gateway: 'backlog' }

/**
 * Measures the same four loads with and without a backlog, in turns: the ceiling, PUSH, a loop of bare
 * messages, and a loop of one worker's FETCH(10)+ACK. The backlog has a broker and a gateway of its own,
 * whose ledger knows all of its jobs, so that it does not burden the other side. Before each load on the
 * backlog the same load runs on the other side: for some seconds RabbitMQ is still busy with what the last
 * load removed from a long queue. Both brokers have the policy for long queues that `npm start` gives its own
 * (scripts/broker/long-queues.mjs).
 * @param {Stage} stage
 * @param {Plan} plan
 */
export function measureBacklog(stage, plan) {
  return stage.withLongQueuePolicy(async () => {
    const deep = await stage.another('backlog')
    return await deep.withLongQueuePolicy((isSet) => measure(stage, deep, plan, isSet))
  })
}

/**
 * @param {Stage} shallowStage
 * @param {Stage} deepStage
 * @param {Plan} plan
 * @param {boolean} isPolicySet
 */
async function measure(shallowStage, deepStage, plan, isPolicySet) {
  const size = plan.quick ? QUICK_BACKLOG : BACKLOG
  const shallow = await prepare(shallowStage, 0)
  const deep = await prepare(deepStage, size)
  const rounds = await measureAll(plan, shallow, deep)
  return report(plan, deep, rounds, isPolicySet)
}

/**
 * @param {Plan} plan
 * @param {Side} shallow
 * @param {Side} deep
 */
function measureAll(plan, shallow, deep) {
  return alternate(plan, {
    ceilingWithout: (seconds) => publish(shallow, seconds),
    ceilingWith: (seconds) => publish(deep, seconds),
    pushWithout: (seconds) => push(shallow, seconds),
    pushWith: (seconds) => push(deep, seconds),
    bareLoopWithout: (seconds) => circulateBare(shallow, seconds),
    bareLoopWith: (seconds) => circulateBare(deep, seconds),
    loopWithout: (seconds) => circulate(shallow, seconds),
    loopWith: (seconds) => circulate(deep, seconds),
  })
}

/**
 * Prepares two queues of equal depth: the gateway's holds job messages of jobs, the ceiling's copies of one.
 * @param {import('./stage.mjs').Stage} stage
 * @param {number} size
 */
async function prepare(stage, size) {
  const { queue: ceilingQueue, padding, jobMessage } = await paddedQueue(stage)
  const queue = await stage.newQueue(padding)
  /** @type {Side} */
  const side = {
    ...{ stage, size, ceilingQueue, queue, padding, jobMessage, depths: [] },
    ...{ fillRate: Number.NaN, filledRssMb: Number.NaN },
  }
  if (size > 0) {
    say(`  filling two queues with ${size} messages of ${jobMessage.bytes} bytes`)
    await stage.raw.call('fill', { count: size })
    const fill = { url: stage.url, queue, padding, count: size }
    side.fillRate = await stage.http.push.call('fill', fill)
    side.filledRssMb = residentMb(stage.watch.gateway ?? 0)
  }
  return side
}

/**
 * Takes a queue's only message as the ceiling's. Also returns the padding that makes a job message 1 KiB.
 * @param {Stage} stage
 */
async function paddedQueue(stage) {
  const { bytes } = await stage.sample(await stage.newQueue())
  const padding = 'x'.repeat(MESSAGE_BYTES - bytes - PADDING_OVERHEAD)
  const queue = await stage.newQueue(padding)
  const jobMessage = await stage.sample(queue)
  return { queue, padding, jobMessage }
}

/**
 * @param {Side} side
 * @param {number} seconds
 */
async function publish(side, seconds) {
  const { stage, ceilingQueue } = side
  const before = await stage.depth(ceilingQueue)
  side.depths.push(before)
  const load = { inFlight: CONNECTIONS, seconds, watch: stage.watch }
  const round = await stage.raw.call('publish', load)
  checkArrived((await stage.depth(ceilingQueue)) - before, round.created)
  await restore(side, ceilingQueue)
  return round
}

/**
 * @param {Side} side
 * @param {number} seconds
 */
async function push(side, seconds) {
  const { stage, queue, padding } = side
  const before = await stage.depth(queue)
  side.depths.push(before)
  const load = { url: stage.url, queue, padding, connections: CONNECTIONS, jobsPerRequest: 1 }
  const round = await stage.http.push.call('push', { ...load, seconds, watch: stage.watch })
  checkArrived((await stage.depth(queue)) - before, round.created)
  await restore(side, queue)
  return round
}

/**
 * @param {Side} side
 * @param {number} seconds
 */
async function circulate(side, seconds) {
  const { stage, queue, padding } = side
  side.depths.push(await stage.depth(queue))
  const load = { url: stage.url, queue, padding, segment: SEGMENT, count: 10 }
  return stage.http.drain.call('circulate', { ...load, seconds, watch: stage.watch })
}

/**
 * @param {Side} side
 * @param {number} seconds
 */
async function circulateBare(side, seconds) {
  const { stage, ceilingQueue } = side
  side.depths.push(await stage.depth(ceilingQueue))
  const brokerQueue = stage.brokerQueue(ceilingQueue)
  const load = { brokerQueue, segment: SEGMENT, prefetch: PREFETCH, seconds, watch: stage.watch }
  return stage.raw.call('circulate', load)
}

/**
 * Removes as many messages as a round added, the oldest first, so that all rounds start alike.
 * @param {{ stage: import('./stage.mjs').Stage, size: number }} given
 * @param {string} queue
 */
function restore({ stage, size }, queue) {
  return size === 0 ? stage.purge(queue) : stage.trim(queue, size)
}

/**
 * @param {{ title: string, profile: string }} given
 * @param {Side} deep
 * @param {Awaited<ReturnType<typeof measureAll>>} rounds
 * @param {boolean} isPolicySet
 */
function report({ title, profile }, deep, rounds, isPolicySet) {
  const { ceilingWithout, pushWithout, ceilingWith, pushWith } = rounds
  const { bareLoopWithout, bareLoopWith, loopWithout, loopWith } = rounds
  const without = ratioOfMedians(ceilingWithout, pushWithout, 'rate')
  const depth = [Math.min(...deep.depths), Math.max(...deep.depths)].map(grouped).join(' to ')
  const note =
    `${title}: ${depth} messages of ${grouped(deep.jobMessage.bytes)} bytes ready in RabbitMQ before ` +
    `each round with the backlog. The gateway took its ${grouped(deep.size)} in batches, ` +
    `${grouped(deep.fillRate)} per second, and had ${grouped(deep.filledRssMb)} MB after that.` +
    (isPolicySet ? ' RabbitMQ had the policy that `npm start` gives its node.' : '')
  return [
    {
      title: `PUSH 1 KiB, no backlog, ${profile}`,
      wanted: '',
      result: { kind: 'rate', ceiling: ceilingWithout, gateway: pushWithout },
    },
    {
      title: `PUSH 1 KiB, backlog, ${profile}`,
      wanted: `ratio ≥ ${(0.9 * without).toFixed(2)} (0.9 × without)`,
      result: { kind: 'rate', note, ceiling: ceilingWith, gateway: pushWith },
    },
    {
      title: `Loop of bare messages, ${profile}`,
      wanted: '',
      sides: LOOP_SIDES,
      result: { kind: 'rate', ceiling: bareLoopWithout, gateway: bareLoopWith },
    },
    {
      title: `FETCH(10)+ACK loop, ${profile}`,
      wanted: 'ratio ≥ 0.80, RSS ≤ 250',
      sides: LOOP_SIDES,
      result: { kind: 'rate', ceiling: loopWithout, gateway: loopWith },
    },
  ]
}

/** @param {number} value */
function grouped(value) {
  return Math.round(value).toLocaleString('en-GB')
}
