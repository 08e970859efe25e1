/**
 * The policy for long classic queues. RabbitMQ before 3.12 keeps the messages of a classic queue in memory as
 * long as it can: a queue of 300,000 jobs stops again and again, for up to 0.4 s, and a node with little
 * memory blocks its publishers while such a queue fills. From 3.12 on, all classic queues behave as with this
 * policy, and quorum queues always did (docs/operate/operations.md, "Long classic queues").
 */
const NAME = 'ojs-lazy'
/** With any `OJS_PREFIX` before it. */
const PATTERN = '(^|\\.)ojs\\.queue\\.'
const DEFINITION = '{"queue-mode":"lazy"}'
const VHOST = ['-p', '/ojs']

/** @typedef {{ ctl(args: readonly string[]): Promise<string> }} Controlled */

/**
 * `sbin`: the folder of a package as Debian unpacks it; its path contains the version.
 * @param {string} sbin
 */
export function needsLongQueuePolicy(sbin) {
  const [, major, minor] = /rabbitmq_server-(\d+)\.(\d+)\./.exec(sbin) ?? []
  return major !== undefined && (Number(major) < 3 || (major === '3' && Number(minor) < 12))
}

/**
 * The policy also applies to existing queues, and outlives restarts.
 * @param {Controlled} node
 */
export async function setLongQueuePolicy(node) {
  await node.ctl(['set_policy', ...VHOST, NAME, PATTERN, DEFINITION, '--apply-to', 'queues'])
}

/** @param {Controlled} node */
export async function clearLongQueuePolicy(node) {
  await node.ctl(['clear_policy', ...VHOST, NAME])
}
