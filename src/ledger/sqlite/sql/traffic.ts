/** Statements for the traffic of queues. */
import type { Traffic } from '../../queues.ts'
import type { Database } from './driver.ts'

/** A minute or an hour of a queue, with its histograms as texts. `at`: its number since 1970. */
export interface TrafficRow extends Traffic {
  at: number
  queue: string
  durations: string
  waits: string
}

type Place = [spanMs: number, at: number, queue: string]

const COUNTS = `enqueued, completed, failed, retried, timed, duration_ms AS durationMs, waited,
  wait_ms AS waitMs`

export function prepareTraffic(db: Database) {
  return {
    /** The minutes of the last hour that has any. */
    lastMinutes: db.prepare<[spanMs: number], Traffic & { at: number; queue: string }>(
      `SELECT at, queue, ${COUNTS} FROM traffic
       WHERE span_ms = ?1 AND queue <> ''
         AND at > (SELECT max(at) FROM traffic WHERE span_ms = ?1) - 60`,
    ),
    traffic: db.prepare<Place, TrafficRow>(
      `SELECT at, queue, ${COUNTS}, durations, waits FROM traffic
       WHERE span_ms = ? AND at = ? AND queue = ?`,
    ),
    keepTraffic: db.prepare<
      [
        ...Place,
        enqueued: number,
        completed: number,
        failed: number,
        retried: number,
        timed: number,
        durationMs: number,
        waited: number,
        waitMs: number,
        durations: string,
        waits: string,
      ]
    >('INSERT OR REPLACE INTO traffic VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)'),
    countTraffic: db.prepare<[spanMs: number], { count: number; oldest: number | null }>(
      'SELECT count(*) AS count, min(at) AS oldest FROM traffic WHERE span_ms = ?',
    ),
    pruneTraffic: db.prepare<[spanMs: number, upTo: number]>(
      'DELETE FROM traffic WHERE span_ms = ? AND at <= ?',
    ),
    forgetTrafficAfter: db.prepare<[spanMs: number, at: number]>(
      'DELETE FROM traffic WHERE span_ms = ? AND at > ?',
    ),
  }
}
