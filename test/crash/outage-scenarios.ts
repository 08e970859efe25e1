import { setTimeout as sleep } from 'node:timers/promises'
import { connect } from 'amqplib'
import { v7 } from 'uuid'
import { expect } from 'vitest'
import { momentToStrike, untilRetrying, untilRetryQueuesReady } from './harness.ts'
import { untilRemembered } from './new-queues.ts'
import { FAILING, MANY_RETRIES, SLOWLY_RETRIED } from './retry-scenarios.ts'
import {
  expectServiceBack,
  type Players,
  powerCut,
  QUEUE,
  quorumQueues,
  RETRIED_JOBS,
  retryQueues,
  type Stage,
  withGateway,
} from './stage.ts'

/** The broker is killed with hundreds of jobs in retry queues, which expire meanwhile. */
export async function brokerKilledWhileRetryQueuesExpire(
  stage: Stage,
  outageMs?: number,
): Promise<void> {
  await withGateway(stage, { load: UNTIL_WANTED }, async (players) => {
    await startRetrying(stage, players)
    await powerCut(stage, players, outageMs ?? stage.random.integer(300, 2_000))
  })
}

/**
 * The retry queues of seed 002 §15.3 are declared already; a power cut empties them. Native jobs may use
 * them; those of the gateway never do.
 */
export async function brokerKilledWithClassicRetryQueues(stage: Stage): Promise<void> {
  await declareSeedRetryQueues(stage)
  await withGateway(stage, { load: SLOWLY_RETRIED }, async (players) => {
    await startRetrying(stage, players, [])
    await retryNatively(stage, 200)
    await powerCut(stage, players, stage.random.integer(300, 2_000))
    const { text } = await players.gateway.client.health()
    expect(text).toContain(`${retryQueues(stage)}1000`)
  })
}

/** Gateway and broker die. The gateway starts first, reports 503, and serves as soon as the broker does. */
export async function brokerDownAtStart(stage: Stage): Promise<void> {
  await withGateway(stage, { load: UNTIL_WANTED }, async (players) => {
    await startRetrying(stage, players)
    await startWithoutBroker(stage, players)
  })
}

/** The two scenarios above in one, because starting a broker takes most of the time. */
export async function brokerDownWithClassicRetryQueues(stage: Stage): Promise<void> {
  await declareSeedRetryQueues(stage)
  await withGateway(stage, { load: SLOWLY_RETRIED }, async (players) => {
    await startRetrying(stage, players, [])
    await retryNatively(stage, 200)
    await startWithoutBroker(stage, players)
  })
}

async function startWithoutBroker(stage: Stage, players: Players): Promise<void> {
  const { gateway, load, strikes } = players
  load.suspend()
  const fault = Date.now()
  await gateway.kill9()
  strikes.note()
  await stage.node.kill9()
  await gateway.restart()
  expect(await gateway.client.health()).toMatchObject({ status: 503 })
  const { refused } = load.journal
  // A quick machine may have pushed all wanted jobs, and then no PUSH would be refused.
  load.wantStill(100)
  load.startPushing(10)
  load.resume()
  await load.until((journal) => journal.refused >= refused + 100)
  await stage.node.restart()
  await expectServiceBack(gateway, fault)
}

/**
 * Loads until many jobs are in the retry queue and it is time. `retryQueues`: the delay, if the queue is
 * ours.
 */
async function startRetrying(
  stage: Stage,
  { gateway, load }: Players,
  retryQueues: readonly number[] = [1_000],
): Promise<void> {
  const areReady = untilRetryQueuesReady(gateway, retryQueues)
  load.startPushing(2)
  load.startWorking(FAILING)
  await Promise.all([untilRetrying(gateway, load, 1), areReady])
  await untilRemembered(stage.node, quorumQueues(stage, retryQueues))
  load.want(RETRIED_JOBS)
  load.startPushing(38)
  await momentToStrike(gateway, load, load.journal.accepted + stage.random.integer(100, 700))
  await untilRetrying(gateway, load, MANY_RETRIES)
}

/** The broker is away for longer: workers report on their jobs, and producers are refused. */
export async function brokerAway(stage: Stage, outageMs: number): Promise<void> {
  await brokerKilledWhileRetryQueuesExpire(stage, outageMs)
}

/** Pushes for as long as the retry queues are new; `want` then says how many more jobs. */
const UNTIL_WANTED = { ...SLOWLY_RETRIED, jobs: Number.POSITIVE_INFINITY }

const TIMES = 20

/** An operator closes connections, all of them or one at a time: 20 times under load. */
export async function connectionsClosed(stage: Stage): Promise<void> {
  await withGateway(stage, { load: UNTIL_WANTED }, async (players) => {
    players.load.startPushing(40)
    players.load.startWorking(FAILING)
    await momentToStrike(players.gateway, players.load, 200)
    for (const fault of await closeConnections(stage)) players.strikes.note(fault)
    await players.load.until(({ accepted }) => accepted >= RETRIED_JOBS)
    players.load.want(0)
  })
}

/**
 * Closes connections as an operator does, by turns all of them and one. Returns when each call was, in ms
 * since the epoch.
 */
async function closeConnections({ node, random }: Stage): Promise<number[]> {
  const faults: number[] = []
  for (let i = 0; i < TIMES; i++) {
    // The gateway is back after about a second, so some calls come while it reconnects.
    await sleep(random.integer(300, 1_200))
    faults.push(Date.now())
    await node.evaluate(
      i % 2 === 0
        ? closing('Open')
        : closing(`lists:sublist(Open, 1 + ${random.integer(0, 99)} rem max(1, length(Open)), 1)`),
    )
  }
  return faults
}

/** Calls what the management plugin's DELETE /api/connections/… calls. */
function closing(which: string): string {
  return `Open = rabbit_networking:connections(),
    Close = fun(Pid) -> rabbit_networking:close_connection(Pid, "closed by a test") end,
    lists:foreach(Close, ${which})`
}

/** Seed 002 §15.3 as printed, except for the names of the stage and the delays that are not used. */
async function declareSeedRetryQueues(stage: Stage): Promise<void> {
  const connection = await connect(stage.node.url())
  const channel = await connection.createChannel()
  const retry = `${stage.prefix}.ojs.exchange.retry`
  await channel.assertExchange(retry, 'direct', { durable: true })
  for (const delayMs of [1_000, 2_000, 4_000]) {
    const queue = `${retryQueues(stage)}${delayMs}`
    await channel.assertQueue(queue, {
      durable: true,
      arguments: {
        'x-dead-letter-exchange': `${stage.prefix}.ojs.exchange.direct`,
        'x-dead-letter-routing-key': QUEUE,
        'x-message-ttl': delayMs,
      },
    })
    await channel.bindQueue(queue, retry, `${QUEUE}.${delayMs}`)
  }
  await connection.close()
}

/** Publishes jobs as a native client does, to its own retry queue (seed 002 §15.4). */
async function retryNatively(stage: Stage, jobs: number): Promise<void> {
  const connection = await connect(stage.node.url())
  const channel = await connection.createConfirmChannel()
  for (let i = 0; i < jobs; i++) {
    const id = v7()
    const job = { specversion: '1.0', id, type: 'crash.native', queue: QUEUE, args: [id] }
    const properties = { messageId: id, type: job.type, persistent: true, mandatory: true }
    const headers = { 'x-ojs-attempt': 1, 'x-ojs-queue': QUEUE }
    const retry = `${stage.prefix}.ojs.exchange.retry`
    const content = Buffer.from(JSON.stringify(job))
    channel.publish(retry, `${QUEUE}.1000`, content, { ...properties, headers })
  }
  await channel.waitForConfirms()
  await connection.close()
}
