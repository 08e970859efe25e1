import { afterAll, test } from 'vitest'
import { startPrivateNode } from '../support/rabbit.ts'
import { Random } from './random.ts'
import {
  brokerKilled,
  gatewayKilledBeforeConfirm,
  gatewayKilledUnderPush,
  gatewayKilledWithLeases,
  networkStalled,
  queueDeleted,
  type Stage,
} from './scenarios.ts'

/**
 * `OJS_CRASH_SEED=n` repeats a run, `OJS_CRASH_REPEAT=n` soaks: every scenario n times, each time
 * with the next seed and on the other type of queue.
 */
const seed = Number(process.env['OJS_CRASH_SEED'] ?? Date.now() % 1_000_000)
const repeat = Number(process.env['OJS_CRASH_REPEAT'] ?? 1)

type Profile = Stage['profile']
const OTHER = { classic: 'quorum', quorum: 'classic' } as const

const SCENARIOS: [string, Profile, (stage: Stage) => Promise<void>][] = [
  ['gateway killed under PUSH load', 'classic', gatewayKilledUnderPush],
  [
    'gateway killed after the commit, token not in the broker',
    'classic',
    (stage) => gatewayKilledBeforeConfirm(stage, 'to-broker'),
  ],
  [
    'gateway killed after the commit, confirm not received',
    'quorum',
    (stage) => gatewayKilledBeforeConfirm(stage, 'to-gateway'),
  ],
  ['gateway killed while leases are held', 'quorum', gatewayKilledWithLeases],
  ['network stalled, publishes arrive after their refusal', 'classic', networkStalled],
  ['queue deleted with jobs in it', 'classic', queueDeleted],
  ['queue deleted with jobs in it', 'quorum', queueDeleted],
  ['broker killed and restarted', 'classic', brokerKilled],
  ['broker killed and restarted', 'quorum', brokerKilled],
]

const node = await startPrivateNode()
afterAll(() => node.stop())

for (let round = 0; round < repeat; round++) {
  for (const [i, [name, usual, play]] of SCENARIOS.entries()) {
    const profile = round % 2 === 0 ? usual : OTHER[usual]
    const title = `${name} (${profile}, OJS_CRASH_SEED=${seed + round})`
    test(title, () =>
      play({
        title,
        node,
        prefix: `round-${round}-${i}`,
        profile,
        // No two of them strike at the same moment.
        random: new Random((seed + round) * SCENARIOS.length + i),
      }),
    )
  }
}
