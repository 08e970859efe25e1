// How long a batch takes whose jobs are all for queues that do not exist yet: each has its job, dead letter and control
// queue declared in RabbitMQ, with their bindings. Beside it plain amqplib that declares as many queues in the same way,
// in alternating rounds, and the same batch once the queues exist.
//
//   npm run build && node bench/new-queues.mjs [--queues 300] [--rounds 3] [--quorum]

import { parseArgs } from 'node:util'
import { say } from '../scripts/process/progress.mjs'
import { startChild } from './child.mjs'
import { describeMachine } from './machine.mjs'
import { Stage } from './stage.mjs'
import { median } from './statistics.mjs'

const { values } = parseArgs({
  options: {
    queues: { type: 'string', default: '300' },
    // 1,000 queues are the default of OJS_MAX_QUEUES.
    rounds: { type: 'string', default: '3' },
    quorum: { type: 'boolean', default: false },
  },
})
const QUEUES = Number(values.queues)
const ROUNDS = Number(values.rounds)
const TYPE = 'application/openjobspec+json'

const stage = new Stage(values.quorum ? 'quorum' : 'classic', 'new-queues')
const bare = startChild(new URL('./load/declare.mjs', import.meta.url))
try {
  await stage.openBuilt()
  await measure()
} finally {
  await bare.stop()
  await stage.close()
}

async function measure() {
  const { amqp: url, queueType: type } = stage.native
  await bare.call('open', { url })
  await batch('warm', 10)
  const rounds = []
  for (let round = 0; round < ROUNDS; round++) {
    const names = Array.from({ length: QUEUES }, (_, n) => `round-${round}.${n}`)
    const ceiling = await bare.call('declare', { names, type })
    const fresh = await batch(`round-${round}`, QUEUES)
    const known = await batch(`round-${round}`, QUEUES)
    say(`amqplib ${ceiling.toFixed(1)} s, new ${fresh.toFixed(1)} s, then ${known.toFixed(2)} s`)
    rounds.push({ ceiling, fresh, known })
  }
  print(rounds)
}

/** @typedef {Record<'ceiling' | 'fresh' | 'known', number>} Round */

/** @param {readonly Round[]} rounds */
function print(rounds) {
  const of = (/** @type {keyof Round} */ figure) =>
    rounds.map((/** @type {Round} */ round) => round[figure])
  console.log(`${describeMachine()}, RabbitMQ ${stage.brokerVersion}, ${stage.native.queueType}\n`)
  console.log(`| ${QUEUES} queues | median s | longest s | × amqplib |`)
  console.log('|---|--:|--:|--:|')
  const row = (/** @type {string} */ name, /** @type {keyof Round} */ figure) => {
    const [seconds, longest] = [median(of(figure)), Math.max(...of(figure))]
    const ratio = seconds / median(of('ceiling'))
    const cells = [seconds, longest, ratio].map((value) => value.toFixed(2))
    console.log(`| ${[name, ...cells].join(' | ')} |`)
  }
  row('plain amqplib declares them', 'ceiling')
  row('a batch with a job for each, new', 'fresh')
  row('the same when they exist', 'known')
}

/**
 * Pushes one job to each of `count` queues in one batch; resolves to the seconds that it took.
 * @param {string} name
 * @param {number} count
 */
async function batch(name, count) {
  const jobs = Array.from({ length: count }, (_, n) => ({
    type: 'bench.new',
    args: [n],
    options: { queue: `${name}.${n}` },
  }))
  const begun = performance.now()
  const response = await fetch(`${stage.url}/ojs/v1/jobs/batch`, {
    method: 'POST',
    headers: { 'content-type': TYPE },
    body: JSON.stringify({ jobs }),
  })
  const text = await response.text()
  if (response.status !== 201) throw new Error(`${response.status} ${text.slice(0, 500)}`)
  return (performance.now() - begun) / 1000
}
