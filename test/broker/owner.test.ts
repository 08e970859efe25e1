import { afterEach, expect, it, vi } from 'vitest'
import { Connection } from '../../src/broker/connection.ts'
import { SILENT_OBSERVER } from '../../src/broker/observer.ts'
import { Owner } from '../../src/broker/owner.ts'
import { loadTopology } from '../../src/broker/topology.ts'
import { FakePeer } from './fake-peer.ts'
import { logger } from './harness.ts'

afterEach(() => vi.restoreAllMocks())

it('asks again every two seconds at least for what another gateway owns', async () => {
  const peer = await FakePeer.start()
  const locked = { replyCode: 405, replyText: 'RESOURCE_LOCKED', classId: 50, methodId: 10 }
  peer.refusals.set('QueueDeclare', ['ChannelClose', locked])
  const options = { name: 'consume', connectionName: 'test', logger, random: () => 0.5 } as const
  const connection = new Connection({ ...options, urls: [peer.url], observer: SILENT_OBSERVER })
  const owner = new Owner(connection, loadTopology('', 'classic', null), logger, () => {})
  const waits: number[] = []
  let onSeventh = () => {}
  const asked = new Promise<void>((resolve) => {
    onSeventh = resolve
  })
  const wait = globalThis.setTimeout
  vi.spyOn(globalThis, 'setTimeout').mockImplementation(((then: () => void, ms: number) => {
    // Whatever else goes on in this process has timers too.
    if (!new Error().stack?.includes('/broker/owner.ts')) return wait(then, ms)
    if (waits.push(ms) === 7) onSeventh()
    return wait(then, 1)
  }) as typeof setTimeout)
  await connection.start()
  await asked
  expect(waits.slice(0, 7)).toEqual([100, 200, 400, 800, 1_600, 2_000, 2_000])
  await owner.stop()
  await connection.close()
  await peer.stop()
})
