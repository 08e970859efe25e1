/** Reads what is kept of queues in memory, at a start. */
import { settingsIn } from '../../writes/queue-settings.ts'
import { KEPT_FOR, MINUTE_MS, type Minute } from '../../writes/traffic.ts'
import type { Row } from '../connection.ts'
import type { Memory } from '../group/memory.ts'
import type { Reader } from '../reader.ts'

export async function rememberQueues(
  memory: Memory,
  schema: string,
  reader: Reader,
): Promise<void> {
  const text = `SELECT name, paused_at, pause_owed, idle_since, draining_at, configuration
    FROM ${schema}.queues ORDER BY seq`
  for (const row of await reader.rows(text)) rememberQueue(memory, row)
  await rememberTraffic(memory, schema, reader)
}

function rememberQueue(memory: Memory, row: Row): void {
  const { name, paused_at: pausedAt, pause_owed, idle_since, draining_at, configuration } = row
  // A worker may have started while no gateway could answer it.
  const isOwed = pause_owed || pausedAt !== null
  if (isOwed) memory.pauses.set(name, { pausedAt, isOwed })
  if (idle_since !== null) memory.idleSince.set(name, idle_since)
  const settings = settingsIn({ drainingAt: draining_at, configuration })
  if (settings !== null) memory.queueSettings.set(name, settings)
}

/** The minutes of the last hour that has any, of all slots. */
async function rememberTraffic(memory: Memory, schema: string, reader: Reader): Promise<void> {
  const table = `${schema}.traffic`
  const text = `SELECT queue, at, enqueued, completed, failed, retried, timed,
      duration_ms AS "durationMs", waited, wait_ms AS "waitMs" FROM ${table}
    WHERE span_ms = $1 AND queue <> '' AND at > (SELECT max(at) FROM ${table} WHERE span_ms = $1) - 60
    ORDER BY at`
  for (const { queue, ...minute } of await reader.rows(text, [MINUTE_MS]))
    memory.traffic.load(queue, minute as Minute)
  for (const [spanMs] of KEPT_FOR) {
    const count = `SELECT count(*) AS n FROM ${table} WHERE span_ms = $1`
    memory.trafficRows.set(spanMs, Number((await reader.rows(count, [spanMs]))[0]?.['n']))
  }
}
