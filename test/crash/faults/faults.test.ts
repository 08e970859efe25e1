import { afterAll } from 'vitest'
import { startPrivateNode } from '../../support/broker/rabbit.ts'
import { alarmFaults } from './alarms.ts'
import { bulkFaults } from './bulk.ts'
import { clientGoneFaults } from './client-gone.ts'
import { clockFaults } from './clock-steps.ts'
import { deliveryTimeoutFaults } from './delivery-timeout.ts'
import { existingQueueFaults } from './existing-queue.ts'
import { hostileFloodFaults } from './hostile-flood.ts'
import { ledgerFullFaults } from './ledger-full.ts'
import { permissionFaults } from './permissions.ts'
import { deletedInBurstFaults, queueDeletedFaults } from './queue-deleted.ts'
import { queueFullFaults } from './queue-full.ts'
import { scheduleFaults } from './schedules.ts'
import { tooLargeFaults } from './too-large.ts'
import { uniqueFaults } from './unique.ts'
import { zombieFaults } from './zombies.ts'

/**
 * Faults that can be produced on demand (issue 3): one after the other on one node, each in a virtual host
 * of its own. Faults that need load and random moments are in ../crash.test.ts.
 */
const node = await startPrivateNode({ plugins: ['rabbitmq_management'] })
afterAll(() => node.stop())

alarmFaults(node)
deliveryTimeoutFaults(node)
existingQueueFaults(node)
queueDeletedFaults(node)
deletedInBurstFaults(node)
permissionFaults(node)
queueFullFaults(node)
scheduleFaults(node)
tooLargeFaults(node)
clientGoneFaults(node)
zombieFaults(node)
ledgerFullFaults(node)
clockFaults(node)
hostileFloodFaults(node)
uniqueFaults(node)
bulkFaults(node)
