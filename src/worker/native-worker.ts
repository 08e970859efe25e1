/** `NativeWorker`: the SDK's worker, directly on RabbitMQ. */
import { checkQueueName } from '../job/queue-name.ts'
import { requireKnown, requireObject } from '../sdk/async/options.ts'
import { OJSWorker } from '../sdk/worker/worker.ts'
import type { OJSWorkerOptions } from '../sdk/worker/worker-options.ts'
import { type AmqpSourceOptions, amqpSource, SOURCE_OPTIONS } from './amqp-source.ts'

/** The options of `OJSWorker` that have a meaning without HTTP, and those of `amqpSource`. */
export type NativeWorkerOptions = AmqpSourceOptions &
  Pick<OJSWorkerOptions, 'queues' | 'concurrency' | 'workerId' | 'gracePeriod' | 'handleSignals'>

const OPTIONS: Readonly<Record<keyof NativeWorkerOptions, true>> = {
  ...SOURCE_OPTIONS,
  queues: true,
  concurrency: true,
  workerId: true,
  gracePeriod: true,
  handleSignals: true,
}

/** An `OJSWorker` directly on RabbitMQ: the same handlers, middleware, slots and shutdown. */
export class NativeWorker extends OJSWorker {
  /** Throws `TypeError` for invalid options. Does not connect yet. */
  constructor(options: NativeWorkerOptions) {
    requireObject(options, 'NativeWorker needs options, such as { url }.')
    requireKnown(options, OPTIONS, 'NativeWorker')
    const { queues, concurrency, workerId, gracePeriod, handleSignals, ...amqp } = options
    const { logger } = amqp
    const source = amqpSource(amqp)
    super({ source, queues, concurrency, workerId, gracePeriod, handleSignals, logger })
    for (const queue of queues ?? []) requireQueueName(queue, amqp.prefix ?? '')
  }
}

/**
 * Throws `TypeError` for an invalid queue name. The worker would declare the queue all the same and wait for
 * ever, and a gateway would refuse its `sync` for all queues. A worker for `dlx.email` would run the dead
 * letters of `email`.
 */
function requireQueueName(name: string, prefix: string): void {
  try {
    checkQueueName(name, prefix, 'queues')
  } catch (error) {
    if (!(error instanceof Error)) throw error
    throw new TypeError(`${JSON.stringify(name)} is not a valid queue name. ${error.message}`)
  }
}
