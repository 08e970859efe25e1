import { connect } from 'amqplib'
import { expect } from 'vitest'
import type { Direction } from '../support/broker/tcp-proxy.ts'
import { holdUntil, momentToStrike, readLedger } from './harness.ts'
import { untilRemembered } from './new-queues.ts'
import {
  brokerQueue,
  JOBS,
  killAtRandom,
  powerCut,
  quorumQueues,
  type Stage,
  throughProxy,
  withGateway,
} from './stage.ts'

/** A gateway dies under PUSH load and comes back with its ledger, again and again. */
export async function gatewayKilledUnderPush(stage: Stage): Promise<void> {
  await withGateway(stage, {}, async (players) => {
    players.load.startPushing(64)
    await killAtRandom(stage, players)
  })
}

/**
 * A gateway dies when jobs are committed and their confirms have not arrived: the proxy lets nothing pass in
 * one direction, so that either the job message or its confirm never arrives.
 */
export async function gatewayKilledBeforeConfirm(
  stage: Stage,
  direction: Direction,
): Promise<void> {
  // Longer than the gateway lives, so that nothing is refused and withdrawn meanwhile.
  const env = { OJS_PUBLISH_TIMEOUT_MS: '60000' }
  await throughProxy(stage, { env }, async ({ gateway, load, strikes, proxy }) => {
    load.startPushing(64)
    await load.pushDuring(async () => {
      await momentToStrike(gateway, load, stage.random.integer(300, JOBS - 600))
      await holdUntil(gateway, proxy, direction, ({ publishes }) => publishes === 64)
      load.suspend()
    })
    await gateway.kill9()
    proxy.cut()
    const { rows } = await readLedger(gateway)
    expect(rows.filter((row) => row.outbox !== null)).toHaveLength(64)
    strikes.note()
    await gateway.restart()
    load.resume()
  })
}

/**
 * The network holds back what the gateway sends for longer than the publish timeout: producers are
 * refused, and then the job messages of refused jobs arrive all the same.
 */
export async function networkStalled(stage: Stage): Promise<void> {
  const env = { OJS_PUBLISH_TIMEOUT_MS: '1000' }
  await throughProxy(stage, { env }, async ({ gateway, load, strikes, proxy }) => {
    load.startPushing(48)
    load.startWorking({ connections: 16, count: 5 })
    await load.pushDuring(async () => {
      await momentToStrike(gateway, load, stage.random.integer(300, JOBS - 600))
      proxy.hold('to-broker')
      strikes.note()
      await load.until((journal) => journal.refused >= 96)
    })
    proxy.release('to-broker')
  })
}

/** Gateways die while workers have jobs; they acknowledge to a successor. */
export async function gatewayKilledWithLeases(stage: Stage): Promise<void> {
  await withGateway(stage, {}, async (players) => {
    const { load, strikes } = players
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
    await killAtRandom(stage, players)
    expect(strikes.inFlight.leases).toBeGreaterThanOrEqual(holders)
    letGo()
  })
}

/** The broker is killed under PUSH, FETCH and ACK, and is away for a while. */
export async function brokerKilled(stage: Stage): Promise<void> {
  await withGateway(stage, {}, async (players) => {
    const { gateway, load } = players
    load.startPushing(2)
    load.startWorking({ connections: 24, count: 5 })
    await load.until(({ accepted }) => accepted > 0)
    await untilRemembered(stage.node, quorumQueues(stage))
    load.want(JOBS)
    load.startPushing(38)
    await momentToStrike(gateway, load, load.journal.accepted + stage.random.integer(100, 1_000))
    await powerCut(stage, players, stage.random.integer(500, 2_500))
  })
}

/** An administrator deletes the queue with jobs in it, under PUSH, FETCH and ACK. */
export async function queueDeleted(stage: Stage): Promise<void> {
  await withGateway(stage, {}, async ({ gateway, load, strikes }) => {
    load.startPushing(40)
    await load.until((journal) => journal.accepted >= 600)
    load.startWorking({ connections: 24, count: 1 })
    const admin = await connect(stage.node.url())
    const channel = await admin.createChannel()
    const { fault, messageCount } = await load.pushDuring(async () => {
      await momentToStrike(gateway, load, stage.random.integer(700, JOBS - 600))
      return { fault: Date.now(), ...(await channel.deleteQueue(brokerQueue(stage))) }
    })
    await admin.close()
    process.stdout.write(`  the queue had ${messageCount} ready messages when it was deleted\n`)
    expect(messageCount).toBeGreaterThan(0)
    strikes.note(fault)
  })
}
