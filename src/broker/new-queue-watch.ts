/** Connects the queue watch with the parts of the broker that it looks at. */
import type { Clock } from '../clock.ts'
import type { Logger } from '../logger.ts'
import type { Connection } from './connection/connection.ts'
import type { Deliveries } from './consume/deliveries.ts'
import { QueueWatch } from './monitoring/queue-watch.ts'
import type { Names } from './names.ts'
import type { BrokerHooks, BrokerOptions } from './options.ts'
import type { Publisher } from './publish/publisher.ts'
import type { Declarer } from './topology/declarer.ts'
import type { EntityChecker } from './topology/entity-checker.ts'
import type { LeaderlessQueues } from './topology/leaderless-queues.ts'
import type { Topology } from './topology/topology.ts'

export interface Watching {
  connection: Connection
  topology: Topology
  names: Names
  options: BrokerOptions
  hooks: BrokerHooks
  clock: Clock
  logger: Logger
  checker: EntityChecker
  declarer: Declarer
  dead: LeaderlessQueues
  publisher: Publisher
  deliveries: Deliveries
  onExchangeGone(): void
}

/** Connects the watch with the parts that it watches. */
export function newQueueWatch(given: Watching): QueueWatch {
  const { checker, clock, dead, declarer, deliveries, hooks, options, publisher } = given
  return new QueueWatch({
    ...given,
    now: () => clock.now(),
    // The depth of a dead queue says nothing about its jobs.
    queues: () => [...declarer.knownQueues()].filter((queue) => !dead.isDoubtful(queue)),
    readyQueues: () => declarer.readyQueues(),
    available: (queue) => hooks.jobs.availableJobs(queue),
    claimable: (queue) => hooks.jobs.claimableJobs(queue),
    held: (queue) => deliveries.heldOf(queue) + publisher.pending,
    isPlain: (queue) => given.topology.hasPlainConsumers(queue),
    unsettled: (queue) => deliveries.heldOf(queue),
    consumers: (queue) => deliveries.consumersOf(queue),
    onGone: (queue) => void declarer.recheck(queue),
    lookAgain: (scratch) => checker.lookAgain(scratch),
    driftMs: options.driftMs,
  })
}
