import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished } from 'vitest'
import type { PrivateNode } from '../support/broker/rabbit.ts'
import { TcpProxy } from '../support/broker/tcp-proxy.ts'
import { Gateway } from '../support/gateway/gateway.ts'
import { Stopwatch } from '../support/time/stopwatch.ts'
import { conclude, momentToStrike, type Serving, Strikes } from './harness.ts'
import { Load, type LoadOptions } from './load.ts'
import type { Random } from './random.ts'
import { recordResult } from './results.ts'
import { BACK_LIMIT_MS, BACK_PATIENCE_MS } from './service-back.ts'

/** Where a scenario plays, and with what. */
export interface Stage {
  title: string
  /** The title without profile and seed. */
  name: string
  node: PrivateNode
  /** Keeps the runs on one node apart (`OJS_PREFIX`). */
  prefix: string
  profile: 'classic' | 'quorum'
  random: Random
}

export interface Players<G extends Serving = Gateway> {
  gateway: G
  load: Load
  strikes: Strikes
}

export interface Setting {
  env?: Record<string, string>
  load?: Partial<LoadOptions>
}

export const QUEUE = 'crash'
export const JOBS = 2_200
/** For the scenarios in which a third of the attempts fails. */
export const RETRIED_JOBS = 1_400

/** Plays with a gateway that reaches its broker through a proxy. */
export async function throughProxy(
  stage: Stage,
  setting: Setting,
  play: (players: Players & { proxy: TcpProxy }) => Promise<void>,
): Promise<void> {
  const proxy = await TcpProxy.start(stage.node.url())
  onTestFinished(() => proxy.stop())
  const env = { ...setting.env, OJS_AMQP_URL: proxy.url }
  await withGateway(stage, { ...setting, env }, (players) => play({ ...players, proxy }))
}

/** Plays with a gateway of the scenario's own. */
export async function withGateway(
  stage: Stage,
  setting: Setting,
  play: (players: Players) => Promise<void>,
): Promise<void> {
  const gateway = await Gateway.start(gatewayOptions(stage, setting))
  await perform(stage, setting, gateway, play)
}

export function gatewayOptions(stage: Stage, { env }: Setting = {}) {
  return {
    amqpUrl: stage.node.url(),
    env: {
      OJS_LOG_LEVEL: 'debug',
      OJS_QUEUE_TYPE: stage.profile,
      OJS_PREFIX: stage.prefix,
      ...env,
    },
  }
}

/** Plays with a load of the scenario's own; checks at the end what clients were promised. */
export async function perform<G extends Serving>(
  stage: Stage,
  setting: Setting,
  gateway: G,
  play: (players: Players<G>) => Promise<void>,
): Promise<void> {
  const { client } = gateway
  const options = { client, queue: QUEUE, random: stage.random, jobs: JOBS, ...setting.load }
  const load = new Load(options)
  // Not in a `finally`, which a test that runs into its timeout never reaches.
  onTestFinished(async ({ task }) => {
    load.abandon()
    if (task.result?.state === 'fail') {
      process.stdout.write(`the end of the gateway's log:\n${gateway.log.tail()}\n`)
    }
    await gateway.dispose()
  })
  const players = { gateway, load, strikes: new Strikes(gateway) }
  await play(players)
  await expectPromisesKept(stage, players)
}

export function brokerQueue({ prefix }: Stage): string {
  return `${prefix}.ojs.queue.${QUEUE}`
}

export function retryQueues({ prefix }: Stage): string {
  return `${prefix}.ojs.queue.retry.${QUEUE}.`
}

/**
 * Kills the gateway at random moments, one after so many accepted jobs each. Some faults only show when it
 * dies inside a window of a few hundred microseconds, for example between an answer and the commit that
 * should have come first.
 */
export async function killAtRandom(
  stage: Stage,
  { gateway, load, strikes }: Players,
  moments: readonly number[] = [300, 900, 1_500],
  isRight?: Parameters<typeof momentToStrike>[3],
): Promise<void> {
  for (const accepted of moments) {
    await momentToStrike(gateway, load, accepted + stage.random.integer(0, 500), isRight)
    load.suspend()
    await gateway.kill9()
    strikes.note()
    await gateway.restart()
    load.resume()
  }
}

/** The quorum queues that the load needs, as they are named in the broker. */
export function quorumQueues(stage: Stage, delaysMs: readonly number[] = []): string[] {
  const retry = delaysMs.map((delayMs) => `${retryQueues(stage)}${delayMs}`)
  return stage.profile === 'quorum' ? [...retry, brokerQueue(stage)] : retry
}

/** Kills the broker, which is away for `outageMs`; measures when PUSH is served again. */
export async function powerCut(stage: Stage, players: Players, outageMs: number): Promise<void> {
  const fault = Date.now()
  await stage.node.kill9()
  players.strikes.note(fault)
  await sleep(outageMs)
  await stage.node.restart()
  await expectServiceBack(players.gateway, fault)
}

/** Expects the service back soon. To be called when the port listens. */
export async function expectServiceBack({ client }: Gateway, fault: number): Promise<void> {
  const watch = new Stopwatch()
  while ((await client.health()).status !== 200 && watch.elapsedMs < BACK_PATIENCE_MS) {
    await sleep(50)
  }
  const backMs = Math.round(watch.elapsedMs)
  watch.end()
  process.stdout.write(`  ${Date.now() - fault} ms without service, ${backMs} ms of it ours\n`)
  expect(backMs).toBeLessThan(BACK_LIMIT_MS)
}

async function expectPromisesKept(stage: Stage, players: Players<Serving>): Promise<void> {
  const verdict = await conclude({
    ...players,
    title: stage.title,
    amqpUrl: stage.node.url(),
    queue: QUEUE,
    brokerQueue: brokerQueue(stage),
    retryQueues: retryQueues(stage),
  })
  recordResult(stage, verdict, players.strikes)
  expect(verdict.problems).toEqual([])
  expect(verdict.accepted).toBeGreaterThanOrEqual(RETRIED_JOBS)
}
