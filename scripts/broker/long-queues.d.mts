interface Controlled {
  ctl(args: readonly string[]): Promise<string>
}

/** Does the RabbitMQ in that folder keep long classic queues in its memory? */
export function needsLongQueuePolicy(sbin: string): boolean
/** In the vhost `/ojs`. */
export function setLongQueuePolicy(node: Controlled): Promise<void>
export function clearLongQueuePolicy(node: Controlled): Promise<void>
