import { setTimeout as sleep } from 'node:timers/promises'
import { momentToStrike } from './harness.ts'
import { untilRemembered } from './new-queues.ts'
import {
  type Players,
  powerCut,
  quorumQueues,
  RETRIED_JOBS,
  type Stage,
  withGateway,
} from './stage.ts'

/** At any moment hundreds of jobs wait for their time, and some become due. */
const SETTING = { load: { jobs: RETRIED_JOBS, withinMs: 3_000 } }

function startLoad({ load }: Players): void {
  load.startPushing(24)
  load.startWorking({ connections: 16, count: 5 })
}

/** Schedules become due while there is no gateway: none is lost, none runs twice or early. */
export async function gatewayKilledWithSchedules(stage: Stage): Promise<void> {
  await withGateway(stage, SETTING, async (players) => {
    const { gateway, load, strikes } = players
    startLoad(players)
    for (const accepted of [300, 800]) {
      await momentToStrike(gateway, load, accepted + stage.random.integer(0, 300))
      load.suspend()
      await gateway.kill9()
      strikes.note()
      await sleep(stage.random.integer(0, 1_500))
      await gateway.restart()
      load.resume()
    }
  })
}

/** The same while there is no broker. */
export async function brokerKilledWithSchedules(stage: Stage): Promise<void> {
  await withGateway(stage, SETTING, async (players) => {
    const { gateway, load } = players
    startLoad(players)
    await untilRemembered(stage.node, quorumQueues(stage))
    await momentToStrike(gateway, load, stage.random.integer(300, 900))
    await powerCut(stage, players, stage.random.integer(500, 2_000))
  })
}
