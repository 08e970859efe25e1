import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import { schemaOf } from '../../../src/ledger/postgres/schema.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { ask, databaseOn, type TestLedger } from '../../support/gateway/test-ledger.ts'
import type { Replica } from '../../support/postgres/replica.ts'
import { temporaryDirectory } from '../../support/temporary-directory.ts'
import type { Stage } from '../stage.ts'
import { privatePostgres, strike, times, withPair } from './stage.ts'

const PATIENCE_MS = 60_000
const TERMINATE_ALL = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`

/** A primary and its synchronous standby, with what Patroni would do. */
interface Cluster {
  primary: Replica
  standby: Replica
  ledger: TestLedger
}

/** The primary is killed, its standby promoted; the old primary follows the new one, and the next turn is its own. */
export async function standbyPromoted(stage: Stage): Promise<void> {
  const cluster = await startCluster(stage)
  await withPair(stage, cluster.ledger, (players) =>
    times(3, async () => {
      await strike(stage, players, {
        fault: () => cluster.primary.kill9(),
        repair: () => cluster.standby.promote(),
      })
      const { primary: old, standby: primary } = cluster
      // Until then `pg_rewind` takes the new primary for one of the old timeline, which needs no rewind.
      await ask(primary.url(), 'CHECKPOINT')
      await old.rewind(primary)
      await old.start()
      await waitForEachOther(primary)
      cluster.primary = primary
      cluster.standby = old
    }),
  )
}

/**
 * The old primary comes back as if nothing had been: writable, first in the URL, and with no standby to wait for. Nobody
 * may use it, whoever has to connect again.
 */
export async function oldPrimaryBack(stage: Stage): Promise<void> {
  const cluster = await startCluster(stage)
  const { primary: old, standby: primary, ledger } = cluster
  await withPair(stage, ledger, async (players) => {
    await strike(stage, players, {
      fault: () => old.kill9(),
      repair: () => cluster.standby.promote(),
    })
    await old.start()
    await ask(old.url(), `ALTER SYSTEM SET synchronous_standby_names = ''`, RELOAD)
    const inOld = () =>
      writtenTo(old.url().replace('/postgres', `/${ledger.url.split('/').at(-1)}`), stage)
    const before = await inOld()
    await times(3, () => strike(stage, players, { fault: () => ask(primary.url(), TERMINATE_ALL) }))
    const killed = await strike(stage, players, { fault: (gateway) => gateway.kill9() })
    await killed.restart()
    await strike(stage, players, { fault: (gateway) => gateway.kill9() })
    expect(await inOld()).toEqual(before)
    // The verdict reads the ledger as any client does that has seen nothing of this.
    await old.stop()
  })
}

/** What any gateway changes that uses this server. */
function writtenTo(url: string, { prefix }: Stage): Promise<unknown[]> {
  const schema = schemaOf(prefix)
  return ask(url, `SELECT * FROM ${schema}.slots, ${schema}.leader`)
}

const RELOAD = 'SELECT pg_reload_conf()'
const SETTINGS = { wal_log_hints: 'on', wal_keep_size: '512MB' }
/** `pg_rewind` starts the old primary once without the settings on its command line. */
const KEPT_SETTINGS = Object.entries(SETTINGS).map(([k, v]) => `ALTER SYSTEM SET ${k} = '${v}'`)

async function startCluster(stage: Stage): Promise<Cluster> {
  const directory = temporaryDirectory()
  const nodeIn = (name: string) => privatePostgres(join(directory.path, name), SETTINGS)
  const [primary, standby] = [nodeIn('a'), nodeIn('b')]
  onTestFinished(async () => {
    await Promise.all([primary.stop(), standby.stop()])
    directory.remove()
  })
  await primary.start()
  await ask(primary.url(), ...KEPT_SETTINGS)
  await standby.copy(primary)
  await standby.start()
  await waitForEachOther(primary)
  const options = { replicas: [standby.url()], prefix: stage.prefix }
  return { primary, standby, ledger: await databaseOn(primary.url(), options) }
}

/** From now on each commit waits for the other node. */
async function waitForEachOther(primary: Replica): Promise<void> {
  await ask(primary.url(), `ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'`, RELOAD)
  await eventually(async () => {
    const [row] = await ask(
      primary.url(),
      `SELECT count(*)::int AS n FROM pg_stat_replication
      WHERE sync_state = 'quorum'`,
    )
    return row.n === 1
  }, PATIENCE_MS)
}
