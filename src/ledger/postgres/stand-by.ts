/** Prepares to be the active gateway, or one that stands by. */
import { randomUUID } from 'node:crypto'
import type { PostgresAddress } from './address.ts'
import { connectWritable } from './connection.ts'
import { LEASE_MS, Leadership, type LeadershipOptions } from './leadership.ts'
import { migrate } from './migrations.ts'
import { schemaOf } from './schema.ts'

export interface PostgresPlace {
  address: PostgresAddress
  /** `OJS_PREFIX`. */
  prefix: string
}

const TIMEOUTS = { connectMs: 5_000, answerMs: 30_000 }
/** An answer that comes later than the lease ends says nothing about it. */
const LEASE_TIMEOUTS = { connectMs: 2_000, answerMs: LEASE_MS }

/** Migrates the ledger. Rejects when no host is writable, or when the ledger is of a newer version. */
export async function standBy(
  { address, prefix }: PostgresPlace,
  given: Pick<LeadershipOptions, 'url' | 'clock' | 'logger'>,
): Promise<{ leadership: Leadership; ledgerId: string }> {
  const schema = schemaOf(prefix)
  const connection = await connectWritable(address, TIMEOUTS)
  try {
    await migrate(connection, schema)
    const [answer] = await connection.ask([{ text: `SELECT id FROM ${schema}.identity` }])
    if (answer?.status !== 'fulfilled') throw answer?.reason
    const connect = () => connectWritable(address, LEASE_TIMEOUTS)
    const leadership = new Leadership({ ...given, schema, owner: randomUUID(), connect })
    return { leadership, ledgerId: String(answer.value.rows[0]?.['id']) }
  } finally {
    await connection.close()
  }
}
