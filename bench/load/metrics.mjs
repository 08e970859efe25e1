import { getRequest } from './requests.mjs'

/** The number of completed jobs of a queue, from the counts that the ledger keeps. */
export async function completedIn(connection, url, queue) {
  const counts = await scrape(connection, url, 'ojs_queue_depth')
  return counts.get(`queue="${queue}",state="completed"`) ?? 0
}

/** The number of control messages that the gateway has understood, of all types. */
export async function controlMessages(connection, url) {
  const counts = await scrape(connection, url, 'ojs_control_messages_total')
  return [...counts.values()].reduce((sum, count) => sum + count, 0)
}

/** Reads one metric: its values by their labels. */
async function scrape(connection, url, name) {
  const { status, body } = await connection.request(getRequest(url, '/metrics'))
  if (status !== 200) throw new Error(`/metrics answered ${status}: ${body}`)
  const lines = body.matchAll(new RegExp(`^${name}\\{(.*)\\} (\\d+)$`, 'gm'))
  return new Map([...lines].map(([, labels, value]) => [labels, Number(value)]))
}
