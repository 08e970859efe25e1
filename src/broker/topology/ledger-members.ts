/** The gateways that share a ledger find each other in RabbitMQ, and tell other ledgers from their own. */

import { classify } from '../connection/channel-error.ts'
import type { Connection } from '../connection/connection.ts'
import { withScratchChannel } from '../connection/temporary-channel.ts'
import { lookFor } from './entity.ts'

/**
 * - `first`: no other gateway of this ledger is connected
 * - `shared`: another one is, or its dead socket
 * - `other`: the gateways that are connected have another ledger
 */
export type Membership = 'first' | 'shared' | 'other'

interface Membered {
  /** Of an exchange, which is there while a member is connected. */
  exchange: string
  ledgerId: string
  /** Of the member's own queue. */
  member: string
  /** As the owner queue's. */
  queueArguments: Record<string, unknown>
}

/**
 * Joins the members until the connection ends. Their exchange carries the ledger as an argument, which RabbitMQ
 * compares at each declare: as metadata of the cluster, it outlives any node. Each member binds a queue of its
 * connection, and RabbitMQ deletes the exchange with the last of them.
 */
export function joinMembers(
  connection: Connection,
  { exchange, ledgerId, member, queueArguments }: Membered,
): Promise<Membership> {
  return withScratchChannel(connection, async (scratch) => {
    const { presence } = await lookFor(scratch, { entity: 'exchange', name: exchange })
    // Nothing is published to either.
    const alternateExchange = `${exchange}.of.${ledgerId}`
    const transient = { durable: false, autoDelete: true, internal: true, alternateExchange }
    try {
      await scratch.run((channel) => channel.assertExchange(exchange, 'fanout', transient))
    } catch (error) {
      if (classify(error).kind === 'differs') return 'other'
      throw error
    }
    await scratch.run(async (channel) => {
      const own = { durable: false, exclusive: true, arguments: queueArguments }
      await channel.assertQueue(member, own)
      await channel.bindQueue(member, exchange, '')
    })
    return presence === 'exists' ? 'shared' : 'first'
  })
}
