import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, describe, expect, it, type Mock, onTestFinished, vi } from 'vitest'
import type { BrokerHooks } from '../src/broker/options.ts'
import { readConfig } from '../src/config/config.ts'
import { brokerHooks, startGateway } from '../src/gateway.ts'
import { openSqliteLedger } from '../src/ledger/sqlite/open.ts'
import { createLogger } from '../src/logger.ts'
import type { Deps } from '../src/operations/deps.ts'
import type { ControlObserver } from '../src/telemetry/control-metrics.ts'
import { fetched, NOW, pushed, rowOf } from './ledger/harness.ts'
import { ledgerOfTest } from './ledger/sqlite/harness.ts'
import { onToldBroker, type ToldStage } from './operations/job-messages/told-broker.ts'

const logger = createLogger('silent')

it('a gateway that fails to start closes its ledger, so that it can be opened again', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'ojs-gateway-'))
  onTestFinished(() => rmSync(dir, { recursive: true }))
  const path = join(dir, 'ojs.db')
  const env = { OJS_LEDGER: `sqlite:${path}`, OJS_TOPOLOGY: join(dir, 'none.json') }
  const { config } = readConfig({ ...env, OJS_AMQP_URL: 'amqp://127.0.0.1:1' })
  await expect(startGateway(config, logger)).rejects.toThrow('none.json')
  const ledger = await openSqliteLedger({ path, sync: 'normal', logger })
  await ledger.close()
})

it('a gateway warns from its start about queues that another process has found lost', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'ojs-gateway-'))
  onTestFinished(() => rmSync(dir, { recursive: true }))
  const path = join(dir, 'ojs.db')
  const ledger = await openSqliteLedger({ path, sync: 'normal', logger })
  for (const queue of ['lost', 'found']) await ledger.recordQueue(queue, NOW)
  await ledger.lost.mark('lost', NOW)
  await ledger.close()
  const env = { OJS_LEDGER: `sqlite:${path}`, OJS_PORT: '0', OJS_AMQP_URL: 'amqp://127.0.0.1:1' }
  const gateway = await startGateway(readConfig(env).config, logger)
  const health = await fetch(`${gateway.url}/ojs/v1/health`)
  const { warnings } = (await health.json()) as { warnings: { code: string }[] }
  await gateway.stop(AbortSignal.timeout(5_000))
  const lost = warnings.filter(({ code }) => code === 'queue_lost')
  expect(lost).toMatchObject([{ details: { queue: 'lost' } }])
})

describe('the hooks through which the broker reads the ledger', () => {
  const harness = ledgerOfTest()
  let stage: ToldStage
  let wakeRelay: Mock<Deps['wakeRelay']>
  let hooks: BrokerHooks
  beforeEach(() => {
    stage = onToldBroker(harness, {})
    const clock = { now: () => NOW + 60_000, wall: () => NOW + 60_000 }
    wakeRelay = vi.fn()
    const deps = { ...stage.deps, clock, wakeRelay }
    hooks = brokerHooks(deps, {} as ControlObserver)
  })

  it('report job messages of a queue while it has a job that waits or runs', async () => {
    expect(hooks.jobs.hasMessages('default')).toBe(false)
    const { id } = await pushed(harness.ledger)
    expect(hooks.jobs.hasMessages('default')).toBe(true)
    await harness.plant([{ id, state: 'active', holder: 'native' }])
    hooks = brokerHooks(stage.deps, {} as ControlObserver)
    expect(hooks.jobs.hasMessages('default')).toBe(true)
  })

  it('count only jobs whose job message was confirmed, and none while a thousand job messages are owed', async () => {
    const { ledger } = harness
    const jobs = [await pushed(ledger), await pushed(ledger), await pushed(ledger)]
    expect(await hooks.jobs.availableJobs('default')).toBe(0)
    for (const { outbox } of jobs.slice(1)) ledger.confirmed(outbox)
    await expect.poll(() => hooks.jobs.availableJobs('default')).toBe(2)
    expect(await hooks.jobs.availableJobs('other')).toBe(0)
    await Promise.all(Array.from({ length: 1_000 }, () => pushed(ledger)))
    expect(await hooks.jobs.availableJobs('default')).toBe(0)
  })

  it('extend all leases before the broker consumes', async () => {
    const { id } = await fetched(harness.ledger)
    const before = (await rowOf(harness.ledger, id)).leaseExpiresAt ?? 0
    await hooks.arrivals.onConsumeUp()
    expect((await rowOf(harness.ledger, id)).leaseExpiresAt).toBe(before + 60_000)
  })

  it('extend all leases and wake the relay for all owed job messages when the broker can publish again', async () => {
    const { id } = await fetched(harness.ledger)
    const before = (await rowOf(harness.ledger, id)).leaseExpiresAt ?? 0
    hooks.arrivals.onUp()
    await expect
      .poll(async () => (await rowOf(harness.ledger, id)).leaseExpiresAt)
      .toBe(before + 60_000)
    expect(wakeRelay.mock.calls).toEqual([['all']])
  })

  it("record a queue that another program has declared, and the queue's identity", async () => {
    hooks.queues.onQueueFound('found')
    await expect.poll(() => hooks.queues.recordedQueues()).toContain('found')
    await hooks.queues.recordIdentity('found', 'q-1')
    expect(await hooks.queues.identityOf('found')).toBe('q-1')
  })

  it('record a retry queue before it is used', async () => {
    await hooks.queues.onRetryQueueDeclared('default', 500)
    expect(hooks.queues.recordedRetryQueues()).toEqual([{ queue: 'default', delayMs: 500 }])
  })

  it('report a queue as paused while the ledger has it paused', async () => {
    expect(hooks.queues.isPaused('default')).toBe(false)
    await harness.ledger.pauses.pause('default', NOW)
    expect(hooks.queues.isPaused('default')).toBe(true)
  })
})

it('a gateway whose PostgreSQL cannot be reached says where, and nothing of the password', async () => {
  const env = { OJS_LEDGER: 'postgres://user:hunter2@127.0.0.1:1/jobs', OJS_PORT: '0' }
  const started = startGateway(readConfig(env).config, logger)
  await expect(started).rejects.toThrow('no writable PostgreSQL: 127.0.0.1:1')
  await expect(started).rejects.not.toThrow('hunter2')
})
