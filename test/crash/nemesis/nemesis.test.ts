import { join } from 'node:path'
import { afterAll, beforeAll, describe, test } from 'vitest'
import type { PrivatePostgres } from '../../../scripts/postgres/private-postgres.mjs'
import type { PrivateNode } from '../../support/broker/rabbit.ts'
import { IS_SOAK, ROUND } from '../../support/soak.ts'
import { temporaryDirectory } from '../../support/temporary-directory.ts'
import { Random, SEED } from '../random.ts'
import type { Stage } from '../stage.ts'
import { brokerKilled, brokerNode, memberKilled } from './broker.ts'
import { oldPrimaryBack, standbyPromoted } from './cluster.ts'
import {
  bouncerKilled,
  connectionsTerminated,
  diskFull,
  idleTransactionsEnded,
  networkCut,
  postgresKilled,
} from './database.ts'
import { gatewayEnded, gatewayKilled, gatewayStoodStill } from './gateways.ts'
import { privatePostgres } from './stage.ts'

type Play = (stage: Stage, server: PrivatePostgres) => Promise<void>
/** With the type of its queues, if it needs a certain one. */
type Scenario = [string, Play, Stage['profile']?]

/** Two gateways on a PostgreSQL under load, and what may happen to any of the three. */
const SCENARIOS: Scenario[] = [
  ['gateway killed', gatewayKilled],
  ['gateway stopped (SIGTERM)', gatewayEnded],
  ['gateway stands still for 15 s', gatewayStoodStill],
  ['PostgreSQL killed and started again', postgresKilled],
  ['connections of the ledger terminated', connectionsTerminated],
  ['idle transactions ended by PostgreSQL', idleTransactionsEnded],
  ['network to PostgreSQL cut one way', (stage, server) => networkCut(stage, server, 'to-broker')],
  [
    'network from PostgreSQL cut one way',
    (stage, server) => networkCut(stage, server, 'to-gateway'),
  ],
  ['PostgreSQL killed, its standby promoted', standbyPromoted],
  ['old primary back, writable', oldPrimaryBack],
  ["PostgreSQL's disk full", diskFull],
  ['PgBouncer killed and started again', bouncerKilled],
  ['RabbitMQ killed and started again', brokerKilled],
  ['a RabbitMQ node of three killed and started again', memberKilled, 'quorum'],
]

/** A scenario takes a minute on an idle machine. */
const TIMEOUT_MS = 600_000

describe.runIf(IS_SOAK)('nemesis', () => {
  let directory: ReturnType<typeof temporaryDirectory>
  let server: PrivatePostgres
  let node: PrivateNode

  beforeAll(async () => {
    directory = temporaryDirectory()
    server = privatePostgres(join(directory.path, 'pg'))
    node = await brokerNode()
    await server.start()
  })
  afterAll(async () => {
    await Promise.all([server?.stop(), node?.stop()])
    directory?.remove()
  })

  for (const [i, [name, play, only]] of SCENARIOS.entries()) {
    const profile = only ?? ((ROUND + i) % 2 === 0 ? 'classic' : 'quorum')
    const title = `${name} (${profile}, OJS_CRASH_SEED=${SEED})`
    const random = new Random(SEED * SCENARIOS.length + i)
    test(title, { timeout: TIMEOUT_MS }, () =>
      play({ title, name, node, prefix: `nemesis-${i}`, profile, random }, server),
    )
  }
})
