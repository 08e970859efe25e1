/** The parts of the ledger that have writes and reads of their own. */
import type { Known } from '../../known.ts'
import type { PartDeps } from '../part.ts'
import { PostgresIdleQueues } from '../queues/idle.ts'
import { PostgresPauses } from '../queues/pauses.ts'
import { PostgresQueueSettings } from '../queues/settings.ts'
import { PostgresTraffic } from '../queues/traffic.ts'
import { PostgresAudit } from '../records/audit.ts'
import { PostgresEpochs } from '../records/epochs.ts'
import { PostgresIdempotency } from '../records/idempotency.ts'
import { PostgresMaintenance } from '../records/maintenance.ts'
import { PostgresSchemas } from '../records/schemas.ts'
import { PostgresLostMessages } from '../writes/lost-messages.ts'

export type Parts = ReturnType<typeof partsOf>

/** `known`: of the ledger that is built of these parts. */
export function partsOf(deps: PartDeps, slotId: number, known: () => Known) {
  const { traffic } = deps.memory
  return {
    pauses: new PostgresPauses(deps),
    queueSettings: new PostgresQueueSettings(deps),
    idle: new PostgresIdleQueues({ ...deps, known, lastAt: (queue) => traffic.lastAt(queue) }),
    lostMessages: new PostgresLostMessages(deps),
    traffic: new PostgresTraffic({ ...deps, slotId }),
    idempotency: new PostgresIdempotency(deps),
    schemas: new PostgresSchemas(deps),
    maintenance: new PostgresMaintenance(deps),
    epochs: new PostgresEpochs(deps),
    audit: new PostgresAudit(deps),
  }
}
