/**
 * RabbitMQ before 3.12 keeps what waits in a classic queue in its memory for as long as it can: a
 * queue of 300,000 jobs stands still for up to 0.4 s again and again, and a node with little memory
 * blocks its publishers while such a queue fills. From 3.12 on every classic queue does as this
 * policy says, and quorum queues never did otherwise (docs/operations.md, "Long classic queues").
 */
const NAME = 'ojs-lazy'
/** Whatever `OJS_PREFIX` stands before it. */
const PATTERN = '(^|\\.)ojs\\.queue\\.'
const DEFINITION = '{"queue-mode":"lazy"}'
const VHOST = ['-p', '/ojs']

/** `sbin`: of a package as Debian unpacks it, whose path names the version. */
export function needsLongQueuePolicy(sbin) {
  const [, major, minor] = /rabbitmq_server-(\d+)\.(\d+)\./.exec(sbin) ?? []
  return major !== undefined && (Number(major) < 3 || (major === '3' && Number(minor) < 12))
}

/** It holds for queues that are there, too, and outlives restarts. */
export async function setLongQueuePolicy(node) {
  await node.ctl(['set_policy', ...VHOST, NAME, PATTERN, DEFINITION, '--apply-to', 'queues'])
}

export async function clearLongQueuePolicy(node) {
  await node.ctl(['clear_policy', ...VHOST, NAME])
}
