import { afterEach, beforeEach } from 'vitest'
import type { BrokerDeps, BrokerOptions } from '../../src/broker/options.ts'
import { createVhost, type Vhost } from '../support/broker/rabbit.ts'
import { forAll, late } from '../support/time/late.ts'
import { type Admin, type AllHooks, connectAdmin, startBroker, type TestBroker } from './harness.ts'

/** Like `startBroker`, and stops after each test what it has started. */
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

/** An administrator of this vhost, for all tests of the file or `describe` that calls this. */
export function adminForAll(vhost: Pick<Vhost, 'url'>): Admin {
  return forAll(
    () => connectAdmin(vhost.url),
    (admin) => admin.close(),
  )
}

/** Gives each test a virtual host in which nothing is declared yet, and an administrator. */
export interface VhostOfTest {
  vhost: Vhost
  admin: Admin
  /** Like `startBroker`, in that virtual host unless `amqpUrls` are given; stopped after the test. */
  start(
    given?: Partial<BrokerOptions>,
    hooks?: Partial<AllHooks>,
    deps?: Partial<BrokerDeps>,
  ): Promise<TestBroker>
  /** Connects the administrator again: `vhost.closeConnections` closes its connection too. */
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
  // After the hooks above: vitest runs the last afterEach first, so brokers stop before their vhost goes.
  const startAt = brokersOfTest()
  return {
    vhost: late(() => vhost),
    admin: late(() => admin),
    start: (...given) => startAt(vhost.url, ...given),
    reconnectAdmin,
  }
}
