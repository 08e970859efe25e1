import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { findPostgresBin } from '../../../scripts/postgres/postgres-package.mjs'
import type { Gateway } from '../../support/gateway/gateway.ts'
import { GatewayPair } from '../../support/gateway/gateway-pair.ts'
import type { TestLedger } from '../../support/gateway/test-ledger.ts'
import { Replica } from '../../support/postgres/replica.ts'
import { momentToStrike } from '../harness.ts'
import { gatewayOptions, type Players, perform, RETRIED_JOBS, type Stage } from '../stage.ts'

/** From the fault, or from the end of an outage of the database, until a PUSH is accepted (docs/operate/postgresql.md). */
const SERVED_LIMIT_MS = 10_000
const PUSHERS = 4

export type Pair = Players<GatewayPair>

interface Ways {
  /** How each gateway reaches the ledger, if not directly. */
  urls?: readonly [string, string]
  /** The nodes of RabbitMQ, if several. */
  amqpUrls?: readonly string[]
}

export async function withPair(
  stage: Stage,
  ledger: TestLedger,
  play: (players: Pair) => Promise<void>,
  { urls = [ledger.url, ledger.url], amqpUrls = [stage.node.url()] }: Ways = {},
): Promise<void> {
  const optionsOf = (url: string) => ({
    ...gatewayOptions(stage, { env: { OJS_LEDGER: url, OJS_AMQP_URL: amqpUrls.join() } }),
    ledger,
  })
  const pair = await GatewayPair.start([optionsOf(urls[0]), optionsOf(urls[1])])
  const setting = { load: { isLedgerRemote: true, jobs: RETRIED_JOBS } }
  await perform(stage, setting, pair, async (players) => {
    const { load } = players
    load.startPushing(PUSHERS)
    load.startWorking({ connections: 12, count: 5 })
    const { prefix, profile } = stage
    await load.startNativeWorker({ url: amqpUrls, prefix, queueType: profile })
    await load.pushDuring(() => play(players))
  })
}

interface Blow {
  /** Strikes the gateway that is active. */
  fault(struck: Gateway): unknown
  /** Ends the outage of what all gateways need; the time counts from then on. Absent: the standby takes over, or goes on. */
  repair?(): Promise<unknown>
}

/** A fault at a random moment with something in flight; measures until a PUSH is accepted. Returns who was active. */
export async function strike(
  stage: Stage,
  players: Pair,
  { fault, repair }: Blow,
): Promise<Gateway> {
  const { gateway: pair, load, strikes } = players
  const accepted = load.journal.accepted + stage.random.integer(50, 200)
  await momentToStrike(pair, load, accepted)
  const struck = pair.active
  const at = Date.now()
  await fault(struck)
  strikes.note(at, struck)
  await repair?.()
  const servedMs = await load.untilServed()
  strikes.servedMs.push(servedMs)
  process.stdout.write(`  ${stage.name}: served after ${servedMs} ms\n`)
  expect(servedMs).toBeLessThan(SERVED_LIMIT_MS)
  return struck
}

/** How long something is away. */
export function outage(stage: Stage, fromMs = 300, toMs = 3_000): Promise<void> {
  return sleep(stage.random.integer(fromMs, toMs))
}

export async function times(
  count: number,
  play: (turn: number) => Promise<unknown>,
): Promise<void> {
  for (let turn = 0; turn < count; turn++) await play(turn)
}

export function privatePostgres(dir: string, settings: Record<string, string> = {}): Replica {
  const bin = findPostgresBin()
  if (!bin) throw new Error('no PostgreSQL: apt-get install postgresql')
  return new Replica({ bin, dir, password: 'nemesis', settings })
}
