import { checkQueueName } from '../job/queue-name.ts'
import { requireObject } from '../sdk/given.ts'
import { OJSWorker } from '../sdk/worker.ts'
import type { OJSWorkerOptions } from '../sdk/worker-options.ts'
import { type AmqpSourceOptions, amqpSource } from './amqp-source.ts'

/** Those of `OJSWorker` that mean anything without HTTP, and those of `amqpSource`. */
export type NativeWorkerOptions = AmqpSourceOptions &
  Pick<OJSWorkerOptions, 'queues' | 'concurrency' | 'workerId' | 'gracePeriod' | 'handleSignals'>

/** `OJSWorker` straight from RabbitMQ: the same handlers, middleware, slots and shutdown. */
export class NativeWorker extends OJSWorker {
  /** Throws `TypeError` for options that cannot work; nothing is connected yet. */
  constructor(options: NativeWorkerOptions) {
    requireObject(options, 'NativeWorker needs options, such as { url }.')
    const { queues, concurrency, workerId, gracePeriod, handleSignals, ...amqp } = options
    const { logger } = amqp
    const source = amqpSource(amqp)
    super({ source, queues, concurrency, workerId, gracePeriod, handleSignals, logger })
    for (const queue of queues ?? []) requireQueueName(queue, amqp.prefix ?? '')
  }
}

/**
 * A worker would declare the queue all the same and wait at it for ever, and a gateway would refuse
 * its `sync` for all of them. `dlx.email` would have the dead letters of `email` run.
 */
function requireQueueName(name: string, prefix: string): void {
  try {
    checkQueueName(name, prefix, 'queues')
  } catch (error) {
    if (!(error instanceof Error)) throw error
    throw new TypeError(`${JSON.stringify(name)} is no queue: ${error.message}`)
  }
}
