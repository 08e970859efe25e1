import { codeOf, messageOf } from '../process/errors.mjs'
import { speaksAmqp } from '../process/ports.mjs'

/** A broker on a busy machine is slow; that is no reason to start another one beside it. */
const TIMEOUT_MS = 10_000

/**
 * Checks whether the broker on that port of 127.0.0.1 can be used: returns `{ url }` if it accepts guest in
 * the vhost `/ojs` or `/` and no other gateway owns it, else `{ problem }`.
 * @param {number} port
 * @param {string} [prefix]
 * @returns {Promise<{ url: string, problem?: never } | { url?: never, problem: string }>}
 */
export async function inspectLocalBroker(port, prefix) {
  if (!(await speaksAmqp(port, { timeoutMs: TIMEOUT_MS }))) {
    return { problem: 'what listens there is not an AMQP 0-9-1 broker' }
  }
  let problem = ''
  for (const vhost of ['/ojs', '/']) {
    const url = `amqp://guest:guest@127.0.0.1:${port}/${encodeURIComponent(vhost)}`
    try {
      return (await isOwned(url, prefix))
        ? { problem: `another gateway with its own ledger owns vhost ${vhost} there` }
        : { url }
    } catch (error) {
      problem = `the broker refuses guest (${firstLine(error)})`
    }
  }
  return { problem }
}

/**
 * The owner queue is exclusive (docs/architecture.md §3). A passive declare by anybody but its owner fails
 * with 405 while the owner is connected, and with 404 otherwise.
 * @param {string} url
 * @param {string} [prefix]
 */
async function isOwned(url, prefix) {
  // Not a static import, since this module is loaded before the dependencies are installed.
  const { connect } = await import('amqplib')
  const connection = await connect(url, { timeout: TIMEOUT_MS })
  connection.on('error', () => {})
  try {
    const channel = await connection.createChannel()
    channel.on('error', () => {})
    await channel.checkQueue(prefix ? `${prefix}.ojs.system.owner` : 'ojs.system.owner')
    return false
  } catch (error) {
    return codeOf(error) === 405
  } finally {
    await connection.close().catch(() => {})
  }
}

/** @param {unknown} error */
function firstLine(error) {
  return messageOf(error).split('\n')[0]
}
