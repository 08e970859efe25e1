import type { Broker, Delivery, Settled } from '../../../src/broker/broker.ts'
import type { Deps } from '../../../src/operations/deps.ts'
import { Transient } from '../../../src/operations/in-flight.ts'
import { JobMessages } from '../../../src/operations/job-messages/tracker.ts'
import { WorkerRegistry } from '../../../src/operations/workers/worker-registry.ts'
import { createJobEvents, type JobEvent } from '../../../src/telemetry/events.ts'
import { NOW } from '../../ledger/harness.ts'
import type { SqliteHarness } from '../../ledger/sqlite/harness.ts'
import { SILENT } from '../../support/time/silent.ts'

export interface ToldStage {
  deps: Deps
  events: JobEvent[]
  /** How often the operations have woken the relay. */
  woken: number
}

/**
 * Operations on a real ledger with a fake broker: for answers that RabbitMQ gives too rarely, or too
 * late, for a test to wait for them.
 */
export function onToldBroker({ ledger }: SqliteHarness, broker: Partial<Broker>): ToldStage {
  const events: JobEvent[] = []
  const usual = {
    status: () => ({ state: 'up' as const }),
    isDeclared: () => true,
    publishing: 0,
    unpark: () => false,
    isCrowded: () => false,
    broadcast: async () => 'confirmed' as const,
    catchUp: async () => true,
    controlBacklogConsumed: () => true,
    mayReportsReturn: () => false,
  }
  let count = 0
  const stage = { events, woken: 0 } as ToldStage
  const deps = {
    jobMessages: new JobMessages(),
    transient: new Transient(),
    workers: new WorkerRegistry({ now: () => NOW, wall: () => NOW }),
    ledger,
    broker: { ...usual, ...broker },
    clock: { now: () => NOW, wall: () => NOW },
    logger: SILENT,
    events: createJobEvents([(event) => events.push(event)]),
    settings: {
      visibilityTimeoutMs: 30_000,
      timeoutMs: 30_000,
      retention: { completedMs: 604_800_000 },
      deliveryTimeoutMs: 1_800_000,
      publishTimeoutMs: 10_000,
      maxQueues: 10,
      maxBodyBytes: 1_000,
      maxBatchBytes: 2_000,
      delayMode: 'ttl',
      dialect: 'seed',
      prefix: '',
      controlScope: 'queue',
      schemaStrict: false,
    },
    random: () => 0.5,
    wakeRelay: () => {
      stage.woken++
    },
    newId: () => `019539a4-b68c-7def-8000-${(++count).toString().padStart(12, '0')}`,
  } as unknown as Deps
  return Object.assign(stage, { deps })
}

/** A delivery that records in `told` how it is settled. */
export function toldDelivery(
  told: string[],
  given: { isLive?: boolean; settles?: Settled; attempt?: number } = {},
): Delivery {
  const { isLive = true, settles = 'settled', attempt = 1 } = given
  const settle = (how: string) => () => {
    told.push(how)
    return settles
  }
  const ends = { ack: settle('ack'), deadLetter: settle('dead letter') }
  const delivery = { attempt, isLive: () => isLive, ...ends }
  return delivery as unknown as Delivery
}

/** A delivery as FETCH takes it from the buffers: the job message of an attempt. */
export function toldArrival(
  told: string[],
  given: { id: string; attempt?: number; settles?: Settled; queue?: string },
): Delivery {
  const { id, attempt = 1, settles = 'settled', queue = 'default' } = given
  const jobMessage = { id, attempt, generation: 0, queue, message: { headers: {} } }
  const content = { mayBeLimited: () => false, forgetContent() {} }
  return Object.assign(toldDelivery(told, { settles }), jobMessage, content)
}
