/** Counters of actions on many jobs. */
import { Counter, type Registry } from 'prom-client'
import { JOB_ACTIONS } from '../job/steer.ts'
import type { BulkEvent, OnlyCounted } from './events.ts'

/** What became of a job, as the answers call it. */
const DONE = { retry: 'retried', cancel: 'cancelled', delete: 'deleted' } as const

export interface BulkMetrics {
  counted(event: Extract<OnlyCounted, { type: `bulk.${string}` }>): void
  ended(event: BulkEvent): void
}

/** Counts actions on many jobs and the jobs that they met: for a listener for `createJobEvents`. */
export function bulkMetrics(registry: Registry): BulkMetrics {
  const counter = (name: string, help: string, labelNames: string[]) =>
    new Counter({ name, help, labelNames, registers: [registry] })
  const started = counter(
    'ojs_bulk_operations_started_total',
    'Actions on the jobs of a filter that began in the background',
    ['operation'],
  )
  const ended = counter('ojs_bulk_operations_ended_total', 'Those that ended, by outcome', [
    'operation',
    'outcome',
  ])
  const items = counter('ojs_bulk_items_total', 'Jobs that actions on many jobs met, by outcome', [
    'operation',
    'status',
  ])
  for (const operation of JOB_ACTIONS) started.inc({ operation }, 0)
  return {
    counted(event) {
      const { action: operation } = event
      if (event.type === 'bulk.acted') {
        items.inc({ operation, status: DONE[operation] }, event.done)
        items.inc({ operation, status: 'skipped' }, event.skipped)
      } else if (event.type === 'bulk.begun') started.inc({ operation })
      else ended.inc({ operation, outcome: 'stopped' })
    },
    ended({ type, bulk }) {
      if (type === 'bulk.enqueue.completed') {
        items.inc({ operation: 'enqueue', status: 'accepted' }, Number(bulk.data['succeeded']))
        items.inc({ operation: 'enqueue', status: 'failed' }, Number(bulk.data['failed']))
      } else if (bulk.id !== null) {
        const [, operation = ''] = type.split('.')
        ended.inc({ operation, outcome: 'completed' })
      }
    },
  }
}
