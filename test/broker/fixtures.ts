import { afterEach, beforeEach } from 'vitest'
import type { BrokerDeps, BrokerHooks, BrokerOptions } from '../../src/broker/options.ts'
import { late } from '../support/late.ts'
import { createVhost, type Vhost } from '../support/rabbit.ts'
import { type Admin, connectAdmin, startBroker, type TestBroker } from './harness.ts'

/** Like `startBroker`; what it has started is stopped after each test. */
export function brokersOfTest(): typeof startBroker {
  const started: TestBroker[] = []
  afterEach(async () => {
    for (const broker of started.splice(0)) await broker.stop()
  })
  return async (...given) => {
    const broker = await startBroker(...given)
    started.push(broker)
    return broker
  }
}

/** For each test a vhost in which nothing is declared yet, with an administrator. */
export interface VhostOfTest {
  vhost: Vhost
  admin: Admin
  /** Like `startBroker`, in that vhost unless `amqpUrls` are given; stopped after the test. */
  start(
    given?: Partial<BrokerOptions>,
    hooks?: Partial<BrokerHooks>,
    deps?: Partial<BrokerDeps>,
  ): Promise<TestBroker>
  /** `vhost.closeConnections` closes the administrator's too. */
  reconnectAdmin(): Promise<void>
}

export function vhostOfTest(): VhostOfTest {
  let vhost: Vhost
  let admin: Admin
  const reconnectAdmin = async () => {
    admin = await connectAdmin(vhost.url)
  }
  beforeEach(async () => {
    vhost = await createVhost()
    await reconnectAdmin()
  })
  afterEach(async () => {
    await admin.close()
    await vhost.drop()
  })
  // After the hooks above: the last hook is the first to run at the end of a test.
  const startAt = brokersOfTest()
  return {
    vhost: late(() => vhost),
    admin: late(() => admin),
    start: (...given) => startAt(vhost.url, ...given),
    reconnectAdmin,
  }
}
