/** The metrics of a gateway that stands by: its process and its role, nothing of the ledger that another serves. */
import { Registry } from 'prom-client'
import type { MetricsPage } from './exposition.ts'
import { buildInfo, isStandby } from './gateway-gauges.ts'
import { gauge } from './gauges.ts'
import { pageOf } from './process-metrics.ts'

export interface StandbySources {
  readonly version: string
  /** False: it could not take over. */
  isLedgerReachable(): boolean
}

/** Without `ojs_healthy`, by which alerts and dashboards find the gateways that serve. */
export function standbyMetrics({ version, isLedgerReachable }: StandbySources): MetricsPage {
  const registry = new Registry()
  buildInfo(registry, version)
  isStandby(registry, true)
  gauge(
    registry,
    'ojs_standby_ledger_reachable',
    '0 while a gateway that stands by cannot ask the ledger, so that it could not take over',
    () => Number(isLedgerReachable()),
  )
  return pageOf(registry)
}
