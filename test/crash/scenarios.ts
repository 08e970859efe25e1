import { setTimeout as sleep } from 'node:timers/promises'
import { connect } from 'amqplib'
import { expect, onTestFinished } from 'vitest'
import type { InFlight } from '../support/checker.ts'
import { Gateway } from '../support/gateway.ts'
import type { PrivateNode } from '../support/rabbit.ts'
import { type Direction, TcpProxy } from '../support/tcp-proxy.ts'
import { conclude, inFlightAt, momentToStrike, readLedger } from './harness.ts'
import { Load } from './load.ts'
import type { Random } from './random.ts'

export interface Stage {
  title: string
  node: PrivateNode
  /** What keeps the runs on one node apart (`OJS_PREFIX`). */
  prefix: string
  profile: 'classic' | 'quorum'
  random: Random
}

const QUEUE = 'crash'
const JOBS = 2_200

/** A gateway dies under PUSH load and comes back with its ledger, again and again. */
export async function gatewayKilledUnderPush(stage: Stage): Promise<void> {
  await withGateway(stage, {}, async (gateway, load) => {
    load.startPushing(64)
    const inFlight = await strikeThrice(stage, gateway, load)
    await expectPromisesKept(stage, gateway, load, inFlight)
  })
}

/**
 * A gateway dies when jobs are committed and their confirms are not in: nothing passes between it
 * and the broker in one direction, so either the token never arrives or its confirm does not.
 */
export async function gatewayKilledBeforeConfirm(
  stage: Stage,
  direction: Direction,
): Promise<void> {
  await throughProxy(stage, {}, async (gateway, load, proxy) => {
    load.startPushing(64)
    await momentToStrike(gateway, load, stage.random.integer(300, JOBS - 600))
    proxy.hold(direction)
    await gateway.untilLogged('in flight', 10_000, (line) => line['publishes'] === 64)
    load.suspend()
    await gateway.kill9()
    proxy.cut()
    const { rows } = await readLedger(gateway.ledgerPath)
    expect(rows.filter((row) => row.outbox !== null)).toHaveLength(64)
    const inFlight = inFlightAt(gateway, Date.now())
    await gateway.restart()
    load.resume()
    await expectPromisesKept(stage, gateway, load, inFlight)
  })
}

/**
 * The network holds back what the gateway sends for longer than the publish timeout: producers are
 * refused, and then the tokens of refused jobs arrive all the same.
 */
export async function networkStalled(stage: Stage): Promise<void> {
  await throughProxy(stage, { OJS_PUBLISH_TIMEOUT_MS: '1000' }, async (gateway, load, proxy) => {
    load.startPushing(48)
    load.startWorking({ connections: 16, count: 5 })
    await momentToStrike(gateway, load, stage.random.integer(300, JOBS - 600))
    proxy.hold('to-broker')
    const inFlight = inFlightAt(gateway, Date.now())
    await load.until((journal) => journal.refused >= 96)
    proxy.release('to-broker')
    await expectPromisesKept(stage, gateway, load, inFlight)
  })
}

/** Gateways die while workers have jobs; they acknowledge to a successor. */
export async function gatewayKilledWithLeases(stage: Stage): Promise<void> {
  await withGateway(stage, {}, async (gateway, load) => {
    const holders = 16
    let letGo = () => {}
    const keepUntil = new Promise<void>((resolve) => {
      letGo = resolve
    })
    load.startPushing(40)
    await load.until((journal) => journal.accepted >= 200)
    load.startWorking({ connections: holders, count: 10, keepUntil })
    await load.until((journal) => journal.executions.size >= holders)
    load.startWorking({ connections: 16, count: 5 })
    const inFlight = await strikeThrice(stage, gateway, load)
    expect(inFlight.leases).toBeGreaterThanOrEqual(holders)
    letGo()
    await expectPromisesKept(stage, gateway, load, inFlight)
  })
}

/** The broker loses its power under PUSH, FETCH and ACK, and is gone for a while. */
export async function brokerKilled(stage: Stage): Promise<void> {
  await withGateway(stage, {}, async (gateway, load) => {
    load.startPushing(40)
    load.startWorking({ connections: 24, count: 5 })
    await momentToStrike(gateway, load, stage.random.integer(300, JOBS - 600))
    const fault = Date.now()
    await stage.node.kill9()
    const inFlight = inFlightAt(gateway, fault)
    await sleep(stage.random.integer(500, 2_500))
    await stage.node.restart()
    const backMs = await serviceBack(gateway)
    process.stdout.write(`  ${Date.now() - fault} ms without service, ${backMs} ms of it ours\n`)
    expect(backMs).toBeLessThan(5_000)
    await expectPromisesKept(stage, gateway, load, inFlight)
  })
}

/** An administrator deletes the queue with jobs in it, under PUSH, FETCH and ACK. */
export async function queueDeleted(stage: Stage): Promise<void> {
  await withGateway(stage, {}, async (gateway, load) => {
    load.startPushing(40)
    await load.until((journal) => journal.accepted >= 600)
    load.startWorking({ connections: 24, count: 1 })
    await momentToStrike(gateway, load, stage.random.integer(700, JOBS - 600))
    const admin = await connect(stage.node.url())
    const fault = Date.now()
    const { messageCount } = await (await admin.createChannel()).deleteQueue(brokerQueue(stage))
    await admin.close()
    process.stdout.write(`  the queue had ${messageCount} ready messages when it was deleted\n`)
    expect(messageCount).toBeGreaterThan(0)
    await expectPromisesKept(stage, gateway, load, inFlightAt(gateway, fault))
  })
}

/** A gateway that reaches its broker through a proxy. */
async function throughProxy(
  stage: Stage,
  env: Record<string, string>,
  play: (gateway: Gateway, load: Load, proxy: TcpProxy) => Promise<void>,
): Promise<void> {
  const proxy = await TcpProxy.start(stage.node.port)
  const url = new URL(stage.node.url())
  url.port = String(proxy.port)
  onTestFinished(() => proxy.stop())
  const detour = { ...env, OJS_AMQP_URL: url.href }
  await withGateway(stage, detour, (gateway, load) => play(gateway, load, proxy))
}

async function withGateway(
  stage: Stage,
  env: Record<string, string>,
  play: (gateway: Gateway, load: Load) => Promise<void>,
): Promise<void> {
  const gateway = await Gateway.start({
    amqpUrl: stage.node.url(),
    env: {
      OJS_LOG_LEVEL: 'debug',
      OJS_QUEUE_TYPE: stage.profile,
      OJS_PREFIX: stage.prefix,
      ...env,
    },
  })
  const { client } = gateway
  const load = new Load({ client, queue: QUEUE, random: stage.random, jobs: JOBS })
  // Not `finally`: a test that runs into its timeout never gets there.
  onTestFinished(async ({ task }) => {
    load.abandon()
    if (task.result?.state === 'fail') {
      process.stdout.write(`the end of the gateway's log:\n${gateway.log.tail()}\n`)
    }
    await gateway.dispose()
  })
  await play(gateway, load)
}

function brokerQueue({ prefix }: Stage): string {
  return `${prefix}.ojs.queue.${QUEUE}`
}

/**
 * Kills the gateway at three random moments. Some faults need it to die inside a window of a few
 * hundred microseconds, between an answer and the commit that should have come first, say.
 */
async function strikeThrice(stage: Stage, gateway: Gateway, load: Load): Promise<InFlight> {
  const sum = { publishes: 0, leases: 0 }
  for (const accepted of [300, 900, 1_500]) {
    await momentToStrike(gateway, load, accepted + stage.random.integer(0, 500))
    load.suspend()
    await gateway.kill9()
    const inFlight = inFlightAt(gateway, Date.now())
    sum.publishes += inFlight.publishes
    sum.leases += inFlight.leases
    await gateway.restart()
    load.resume()
  }
  return sum
}

/** How long it takes until PUSH is served again, from now on. */
async function serviceBack(gateway: Gateway): Promise<number> {
  const startedAt = Date.now()
  while ((await gateway.client.health()).status !== 200 && Date.now() - startedAt < 15_000) {
    await sleep(50)
  }
  return Date.now() - startedAt
}

async function expectPromisesKept(
  stage: Stage,
  gateway: Gateway,
  load: Load,
  inFlight: InFlight,
): Promise<void> {
  const run = { title: stage.title, gateway, load, inFlight }
  const amqpUrl = stage.node.url()
  const verdict = await conclude({ ...run, amqpUrl, queue: QUEUE, brokerQueue: brokerQueue(stage) })
  expect(verdict.problems).toEqual([])
  expect(verdict.accepted).toBeGreaterThanOrEqual(JOBS)
}
