import { getRequest } from './requests.mjs'

/** @typedef {import('./http-connection.mjs').HttpConnection} HttpConnection */

/**
 * The number of completed jobs of a queue, from the counts that the ledger keeps.
 * @param {HttpConnection} connection
 * @param {string} url
 * @param {string} queue
 */
export async function completedIn(connection, url, queue) {
  const counts = await scrape(connection, url, 'ojs_queue_depth')
  return counts.get(`queue="${queue}",state="completed"`) ?? 0
}

/**
 * The number of control messages that the gateway has understood, of all types.
 * @param {HttpConnection} connection
 * @param {string} url
 */
export async function controlMessages(connection, url) {
  const counts = await scrape(connection, url, 'ojs_control_messages_total')
  return [...counts.values()].reduce((sum, count) => sum + count, 0)
}

/**
 * Reads one metric: its values by their labels.
 * @param {HttpConnection} connection
 * @param {string} url
 * @param {string} name
 */
async function scrape(connection, url, name) {
  const { status, body } = await connection.request(getRequest(url, '/metrics'))
  if (status !== 200) throw new Error(`/metrics answered ${status}: ${body}`)
  const lines = body.matchAll(new RegExp(`^${name}\\{(.*)\\} (\\d+)$`, 'gm'))
  return new Map([...lines].map(([, labels, value]) => [labels, Number(value)]))
}
