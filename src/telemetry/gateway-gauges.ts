/** Gauges of the gateway itself: health, warnings, ledger, version. */
import { Gauge, type Registry } from 'prom-client'
import { gauge } from './gauges.ts'

/** What the gateway knows about itself. */
export interface GatewayState {
  readonly version: string
  /** Other gateways may use the same ledger, and stand by. */
  readonly sharesLedger: boolean
  /** As in `GET /ojs/v1/health`. */
  isHealthy(): boolean
  /** The warnings of `GET /ojs/v1/health`. The gateway defines their codes, so they are few. */
  warnings(): Promise<readonly { readonly code: string }[]>
}

/** The part of the ledger that these gauges read. */
export interface LedgerState {
  fault(): string | null
  owedMessages(atMost: number): Promise<number>
}

/** Counting stops here: more is a backlog in any case, and a scrape must stay cheap. */
const MANY_OWED = 10_000

/** Gauges that tell whether the gateway works, and its version; read at each scrape. */
export function gatewayGauges(
  registry: Registry,
  gateway: GatewayState,
  ledger: LedgerState,
): void {
  gauge(registry, 'ojs_healthy', '1 while a PUSH can be accepted, as /ojs/v1/health says', () =>
    Number(gateway.isHealthy()),
  )
  gauge(registry, 'ojs_ledger_writable', '0 if the last write to the ledger failed', () =>
    Number(ledger.fault() === null),
  )
  gauge(
    registry,
    'ojs_ledger_tokens_owed',
    'Jobs with a message that RabbitMQ has not confirmed, counted up to 10000',
    () => ledger.owedMessages(MANY_OWED),
  )
  new Gauge({
    name: 'ojs_health_warnings',
    help: 'Warnings of /ojs/v1/health',
    labelNames: ['code'],
    registers: [registry],
    async collect() {
      const warnings = await gateway.warnings()
      this.reset()
      for (const { code } of warnings) this.inc({ code })
    },
  })
  buildInfo(registry, gateway.version)
  if (gateway.sharesLedger) isStandby(registry, false)
}

export function buildInfo(registry: Registry, version: string): void {
  const info = new Gauge({
    name: 'ojs_build_info',
    help: 'Always 1',
    labelNames: ['version'],
    registers: [registry],
  })
  info.set({ version }, 1)
}

/** Alerts tell by it that another gateway can serve in the place of one that is gone. */
export function isStandby(registry: Registry, standsBy: boolean): void {
  const help = 'With a ledger on PostgreSQL: 1 while the gateway stands by, 0 while it serves'
  gauge(registry, 'ojs_standby', help, () => Number(standsBy))
}
