import { readFileSync } from 'node:fs'
import { afterAll, test } from 'vitest'
import { startPrivateNode } from '../support/broker/rabbit.ts'
import { IS_SOAK, ROUND } from '../support/soak.ts'
import {
  brokerAway,
  brokerDownAtStart,
  brokerDownWithClassicRetryQueues,
  brokerKilledWhileRetryQueuesExpire,
  brokerKilledWithClassicRetryQueues,
  connectionsClosed,
} from './outage-scenarios.ts'
import { Random, SEED } from './random.ts'
import {
  gatewayKilledInBatch,
  gatewayKilledInRetry,
  gatewayKilledWhileRetryQueuesExpire,
  leasesRunOutAfterRestart,
} from './retry-scenarios.ts'
import {
  brokerKilled,
  gatewayKilledBeforeConfirm,
  gatewayKilledUnderPush,
  gatewayKilledWithLeases,
  networkStalled,
  queueDeleted,
} from './scenarios.ts'
import { brokerKilledWithSchedules, gatewayKilledWithSchedules } from './schedule-scenarios.ts'
import type { Stage } from './stage.ts'

type Profile = Stage['profile']
type Scenario = [string, Profile, (stage: Stage) => Promise<void>]
const OTHER = { classic: 'quorum', quorum: 'classic' } as const

const SCENARIOS: Scenario[] = [
  ['gateway killed under PUSH load', 'classic', gatewayKilledUnderPush],
  [
    'gateway killed after the commit, job message not in the broker',
    'classic',
    (stage) => gatewayKilledBeforeConfirm(stage, 'to-broker'),
  ],
  [
    'gateway killed after the commit, confirm not received',
    'quorum',
    (stage) => gatewayKilledBeforeConfirm(stage, 'to-gateway'),
  ],
  ['gateway killed while leases are held', 'quorum', gatewayKilledWithLeases],
  ['gateway killed between retry publish and ack', 'classic', gatewayKilledInRetry],
  ['gateway killed in a batch, batch refused', 'classic', gatewayKilledInBatch],
  ['leases run out after a restart', 'classic', leasesRunOutAfterRestart],
  ['network stalled, publishes arrive after their refusal', 'classic', networkStalled],
  ['queue deleted with jobs in it', 'classic', queueDeleted],
  ['gateway killed while schedules are due', 'quorum', gatewayKilledWithSchedules],
  ['broker killed while retry queues expire', 'classic', brokerKilledWhileRetryQueuesExpire],
  ['broker away for 8 s', 'quorum', (stage) => brokerAway(stage, 8_000)],
]

/**
 * Left to `npm run soak`, whose rounds have a seed each, the other type of queue every second time, and more and longer
 * outages: variants of those above, and what restarts the broker and waits for it.
 */
const SOAK_ONLY: Scenario[] = [
  ['gateway killed while retry queues expire', 'quorum', gatewayKilledWhileRetryQueuesExpire],
  ['queue deleted with jobs in it', 'quorum', queueDeleted],
  ['broker killed while schedules are due', 'classic', brokerKilledWithSchedules],
  ['connections closed by an operator, 20 times', 'classic', connectionsClosed],
  ['broker down at start, retry queues of 15.3', 'classic', brokerDownWithClassicRetryQueues],
  ['broker killed and restarted', 'classic', brokerKilled],
  ['broker killed and restarted', 'quorum', brokerKilled],
  ['broker killed while retry queues expire', 'quorum', brokerKilledWhileRetryQueuesExpire],
  ['broker killed, retry queues of 15.3', 'classic', brokerKilledWithClassicRetryQueues],
  ['broker down at start', 'quorum', brokerDownAtStart],
  ['broker away for 20 s', 'classic', (stage) => brokerAway(stage, 20_000)],
  ['broker away for 45 s', 'quorum', (stage) => brokerAway(stage, 45_000)],
]

/** As `npm start` runs it; `dead_letter_worker_publisher_confirm_timeout` matters (docs/operate/faults.md). */
const advanced = readFileSync(new URL('../../topology/advanced.config', import.meta.url), 'utf8')

const node = await startPrivateNode({ advanced })
afterAll(() => node.stop())

for (const [i, scenario] of [...SCENARIOS, ...(IS_SOAK ? SOAK_ONLY : [])].entries()) {
  const [name, usual, play] = scenario
  const profile = ROUND % 2 === 0 ? usual : OTHER[usual]
  const title = `${name} (${profile}, OJS_CRASH_SEED=${SEED})`
  // Each scenario strikes at moments of its own.
  const random = new Random(SEED * (SCENARIOS.length + SOAK_ONLY.length) + i)
  test(title, () => play({ title, name, node, prefix: `scene-${i}`, profile, random }))
}
