/** Health: can a PUSH be accepted, and what should an operator look at? */
import type { BrokerWarning } from '../broker/broker.ts'
import { stoppedCronWarnings } from './cron/stopped.ts'
import type { Deps } from './deps.ts'
import { isInMaintenance, maintenanceWarnings } from './maintenance.ts'
import { lostWarnings } from './queues/queue-missing.ts'

export interface Health {
  healthy: boolean
  body: HealthBody
}

interface HealthBody {
  status: 'ok' | 'degraded' | 'standby'
  version: '1.0'
  uptime_seconds: number
  backend: { type: 'rabbitmq'; status: string; latency_ms?: number; error?: string }
  ledger: {
    type: 'sqlite' | 'postgres'
    status: 'writable' | 'failing'
    /** With PostgreSQL: how many other gateways wait to take over. */
    standbys?: number
    error?: string
  }
  /** Of a standby: where the active gateway is. */
  active_url?: string
  /** The gateway stops. */
  draining: boolean
  /** No new jobs are accepted, because an operator said so. */
  maintenance: boolean
  warnings: readonly BrokerWarning[]
}

/** True as long as a PUSH can be accepted (seed 001 §8.1, docs/architecture.md §2). */
export function isHealthy({ broker, ledger }: Deps): boolean {
  return broker.status().state === 'up' && ledger.known.fault() === null
}

/** Conditions that an operator should look at; they do not make the gateway unhealthy. */
export async function healthWarnings(deps: Deps): Promise<BrokerWarning[]> {
  return [
    ...deps.ledger.known.warnings(),
    ...deps.pruneHold.warnings(),
    ...maintenanceWarnings(deps),
    ...lostWarnings(deps),
    ...(await stoppedCronWarnings(deps)),
    ...deps.broker.warnings(),
  ]
}

/** The answer of `GET /ojs/v1/health`. `isDraining`: no client should count on a next request. */
export async function health(deps: Deps, startedAt: number, isDraining: boolean): Promise<Health> {
  const broker = deps.broker.status()
  const latency = broker.state === 'up' ? deps.broker.latencyMs() : null
  const fault = deps.ledger.known.fault()
  const healthy = isHealthy(deps) && !isDraining
  return {
    healthy,
    body: {
      status: healthy ? 'ok' : 'degraded',
      version: '1.0',
      uptime_seconds: Math.floor((deps.clock.now() - startedAt) / 1000),
      backend: {
        type: 'rabbitmq',
        status: broker.state === 'up' ? 'connected' : BACKEND_STATUS[broker.state],
        // The time of the newest publish or channel opening; no request is made just to measure it.
        ...(latency !== null && { latency_ms: Math.ceil(latency) }),
        ...(broker.state !== 'up' && { error: broker.reason }),
      },
      ledger: ledgerHealth(deps, fault),
      draining: isDraining,
      maintenance: isInMaintenance(deps),
      warnings: await healthWarnings(deps),
    },
  }
}

function ledgerHealth({ ledger }: Deps, fault: string | null): HealthBody['ledger'] {
  const { kind, standbys } = ledger.known.replication
  return {
    type: kind,
    status: fault === null ? 'writable' : 'failing',
    ...(kind === 'postgres' && { standbys: standbys() }),
    ...(fault !== null && { error: fault }),
  }
}

/** What a gateway knows that stands by. */
export interface StandbyFacts {
  /** Where the active gateway is; null: there is none, or it is not known. */
  activeUrl: string | null
  /** Why the ledger cannot be asked; null: it answers. */
  fault: string | null
}

/** The answer of `GET /ojs/v1/health` of a gateway that stands by: it takes no job, and is not broken. */
export function standbyHealth({ activeUrl, fault }: StandbyFacts, uptime: number): HealthBody {
  return {
    status: 'standby',
    version: '1.0',
    uptime_seconds: uptime,
    // Only the active gateway connects.
    backend: { type: 'rabbitmq', status: 'disconnected' },
    ledger: {
      type: 'postgres',
      status: fault === null ? 'writable' : 'failing',
      ...(fault !== null && { error: fault }),
    },
    ...(activeUrl !== null && { active_url: activeUrl }),
    draining: false,
    maintenance: false,
    warnings: [],
  }
}

/** The answer for callers who are not operators: reasons and warnings name hosts, files and queues. */
export function withoutReasons({
  warnings,
  active_url,
  ...body
}: HealthBody): Omit<HealthBody, 'warnings' | 'active_url'> {
  return { ...body, backend: unexplained(body.backend), ledger: unexplained(body.ledger) }
}

function unexplained<Part extends { error?: string }>(part: Part): Part {
  return part.error === undefined
    ? part
    : { ...part, error: 'The reason is shown to operators only.' }
}

const BACKEND_STATUS = { down: 'disconnected', blocked: 'blocked', foreign: 'refused' } as const
