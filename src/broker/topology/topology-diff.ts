/** RabbitMQ's entities against those that we would declare; declares nothing. */
import { LADDER_MS } from '../../job/retry/backoff.ts'
import { createLogger } from '../../logger.ts'
import type { BrokerWarning } from '../broker.ts'
import { Connection } from '../connection/connection.ts'
import { ScratchChannel } from '../connection/temporary-channel.ts'
import { createNames } from '../names.ts'
import { SILENT_OBSERVER } from '../observer.ts'
import type { BrokerOptions } from '../options.ts'
import { lookForDelayedExchange } from './delay-plugin.ts'
import { compareOrCreate, lookFor, missing } from './entity.ts'
import { type Entity, loadTopology, type TopologyOptions } from './topology.ts'

export type TopologyDiffOptions = TopologyOptions & Pick<BrokerOptions, 'amqpUrls' | 'queues'>

const CONNECTION_NAME = 'ojs-rabbitmq topology diff'
/** Warning code of an entity that exists and may differ. */
export const NOT_COMPARED = 'not_compared'

/**
 * Compares the broker's entities with those we would declare; of retry queues, those of the ladder. Declares
 * nothing. Bindings cannot be seen over AMQP 0-9-1 and are not compared. Rejects when no broker can be
 * reached.
 */
export async function topologyDiff(options: TopologyDiffOptions): Promise<BrokerWarning[]> {
  const topology = loadTopology(options)
  const connection = new Connection({
    name: 'declare',
    urls: options.amqpUrls,
    connectionName: CONNECTION_NAME,
    logger: createLogger('silent'),
    random: Math.random,
    observer: SILENT_OBSERVER,
  })
  await connection.start()
  try {
    if (!connection.isUp) throw new Error(`RabbitMQ cannot be reached: ${connection.downReason}`)
    const version = connection.serverVersion
    const ofQueues = options.queues.flatMap((queue) => topology.ofQueue(queue, version))
    const entities = new Map<string, Entity>()
    for (const entity of [...ofQueues, ...topology.base(version)]) entities.set(entity.name, entity)
    const retryQueues = options.queues.flatMap((queue) =>
      LADDER_MS.map((delayMs) => topology.retryQueue(queue, delayMs, version)),
    )
    const all = [...entities.values(), ...retryQueues]
    const differences = await compareAll(new ScratchChannel(connection), all)
    return options.delayMode === 'plugin'
      ? [...differences, ...(await compareDelayed(options))]
      : differences
  } finally {
    await connection.close()
  }
}

/** Checks that the exchange which the plugin delays in exists and is of the plugin's type. */
async function compareDelayed({ amqpUrls, prefix }: TopologyDiffOptions): Promise<BrokerWarning[]> {
  const exchange = createNames(prefix).exchange.delayed
  const found = await lookForDelayedExchange({
    amqpUrls,
    connectionName: CONNECTION_NAME,
    exchange,
    logger: createLogger('silent'),
  })
  if (found.state === 'ready') return []
  if (found.state === 'unavailable') throw new Error(`exchange '${exchange}' cannot be checked now`)
  return [
    {
      code: 'exchange_unusable',
      message: `exchange '${exchange}' cannot be used for OJS_DELAY_MODE=plugin: ${found.reason}.`,
      details: { entity: exchange },
    },
  ]
}

async function compareAll(
  scratch: ScratchChannel,
  entities: readonly Entity[],
): Promise<BrokerWarning[]> {
  const differences: BrokerWarning[] = []
  for (const entity of entities) {
    const { presence, away } = await lookFor(scratch, entity)
    if (away) {
      differences.push(away)
      continue
    }
    if (presence === 'unavailable')
      throw new Error(`${entity.entity} '${entity.name}' cannot be checked now`)
    if (presence === 'missing') {
      // Retry queues are declared when they are first needed.
      const isRetryQueue = entity.entity === 'queue' && entity.kind === 'rung'
      if (!isRetryQueue) differences.push(missing(entity))
      continue
    }
    const state = await compareOrCreate(scratch, entity)
    if (state.state === 'access-refused') differences.push(notCompared(entity, state.warning))
    else if (state.state === 'kept') differences.push(state.warning)
  }
  return differences
}

/** Comparing takes an active declare, which needs the right to configure. */
function notCompared({ entity, name }: Entity, { details = {} }: BrokerWarning): BrokerWarning {
  return {
    code: NOT_COMPARED,
    message: `${entity} '${name}' exists, but cannot be compared: ${details['reason']}`,
    details: { entity: name },
  }
}
