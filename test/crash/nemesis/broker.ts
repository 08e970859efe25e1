import { readFileSync } from 'node:fs'
import { onTestFinished } from 'vitest'
import type { PrivatePostgres } from '../../../scripts/postgres/private-postgres.mjs'
import { type PrivateNode, startPrivateNode } from '../../support/broker/rabbit.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { databaseOn } from '../../support/gateway/test-ledger.ts'
import { untilRemembered } from '../new-queues.ts'
import { quorumQueues, type Stage } from '../stage.ts'
import { outage, type Pair, strike, times, withPair } from './stage.ts'

/** A node that has been killed starts, and its queues find each other, on any machine. */
const PATIENCE_MS = 120_000
const NODES = 3
const ADVANCED = new URL('../../../topology/advanced.config', import.meta.url)

/** `joins`: a node of the cluster, if it is not to be alone. */
export function brokerNode(joins?: PrivateNode): Promise<PrivateNode> {
  const advanced = readFileSync(ADVANCED, 'utf8')
  return startPrivateNode({ advanced, ...(joins ? { joins } : {}) })
}

/** Not the ledger but the broker of the same pair. */
export async function brokerKilled(stage: Stage, server: PrivatePostgres): Promise<void> {
  await withPair(stage, await databaseOn(server.url(), stage), async (players) => {
    await players.load.until(({ accepted }) => accepted > 0)
    await untilRemembered(stage.node, quorumQueues(stage))
    await times(3, async () => {
      const repair = async () => {
        await outage(stage)
        await stage.node.restart()
      }
      await strike(stage, players, { fault: () => stage.node.kill9(), repair })
    })
  })
}

/**
 * One node of three, with queues of type quorum: the one that gateways and native worker are connected to first, then any.
 * It stays away until a PUSH is accepted without it.
 */
export async function memberKilled(alone: Stage, server: PrivatePostgres): Promise<void> {
  const nodes = await startCluster()
  const [node] = nodes
  const stage = { ...alone, node }
  const play = async (players: Pair) => {
    await players.load.until(({ accepted }) => accepted > 0)
    await Promise.all(nodes.map((node) => untilRemembered(node, quorumQueues(stage))))
    await times(6, async (turn) => {
      const struck = turn === 0 ? node : (nodes[stage.random.integer(0, NODES - 1)] ?? node)
      await strike(stage, players, { fault: () => struck.kill9() })
      await outage(stage)
      await struck.restart()
      await untilExpendable(nodes)
    })
  }
  const amqpUrls = nodes.map((node) => node.url())
  await withPair(stage, await databaseOn(server.url(), stage), play, { amqpUrls })
}

async function startCluster(): Promise<[PrivateNode, ...PrivateNode[]]> {
  const first = await brokerNode()
  const nodes: [PrivateNode, ...PrivateNode[]] = [first]
  onTestFinished(async () => {
    // The first one last: the others use its epmd.
    for (const node of nodes.toReversed()) await node.stop()
  })
  while (nodes.length < NODES) nodes.push(await brokerNode(first))
  return nodes
}

/** Resolves when the queues have a majority whichever of these nodes is lost. */
async function untilExpendable(nodes: readonly PrivateNode[]): Promise<void> {
  const critical = 'length(rabbit_quorum_queue:list_with_minimum_quorum())'
  for (const node of nodes)
    await eventually(async () => (await node.evaluate(critical)) === '0', PATIENCE_MS)
}
