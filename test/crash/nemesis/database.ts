import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { onTestFinished } from 'vitest'
import type { PrivatePostgres } from '../../../scripts/postgres/private-postgres.mjs'
import { type Direction, TcpProxy } from '../../support/broker/tcp-proxy.ts'
import { ask, databaseOn } from '../../support/gateway/test-ledger.ts'
import { Bouncer } from '../../support/postgres/bouncer.ts'
import { SmallDisk } from '../../support/small-disk.ts'
import { temporaryDirectory } from '../../support/temporary-directory.ts'
import type { Stage } from '../stage.ts'
import { outage, type Pair, privatePostgres, strike, times, withPair } from './stage.ts'

const DISK_MB = 250
/** PUSHes that are refused before there is room again. */
const REFUSED = 20

export async function postgresKilled(stage: Stage, server: PrivatePostgres): Promise<void> {
  await withPair(stage, await databaseOn(server.url(), stage), (players) =>
    times(4, async () => {
      const repair = async () => {
        await outage(stage)
        await server.start()
      }
      await strike(stage, players, { fault: () => server.kill9(), repair })
    }),
  )
}

/** As an administrator may, or PostgreSQL itself when it is stopped. */
export async function connectionsTerminated(stage: Stage, server: PrivatePostgres): Promise<void> {
  const text = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`
  await withPair(stage, await databaseOn(server.url(), stage), (players) =>
    times(20, async () => {
      await strike(stage, players, { fault: () => ask(server.url(), text) })
    }),
  )
}

/** PostgreSQL ends each transaction that waits for its client for longer than a millisecond. */
export async function idleTransactionsEnded(stage: Stage, server: PrivatePostgres): Promise<void> {
  const set = (to: string) => ask(server.url(), `ALTER SYSTEM ${to}`, 'SELECT pg_reload_conf()')
  const name = 'idle_in_transaction_session_timeout'
  onTestFinished(() => set(`RESET ${name}`).then(() => {}))
  await withPair(stage, await databaseOn(server.url(), stage), (players) =>
    times(4, async () => {
      const repair = async () => {
        await sleep(2_000)
        await set(`RESET ${name}`)
      }
      await strike(stage, players, { fault: () => set(`SET ${name} = '1ms'`), repair })
    }),
  )
}

/** Of the active gateway only: what it sends does not arrive, or what it is answered. The other one takes over. */
export async function networkCut(
  stage: Stage,
  server: PrivatePostgres,
  direction: Direction,
): Promise<void> {
  const ledger = await databaseOn(server.url(), stage)
  const proxies = [await TcpProxy.start(ledger.url), await TcpProxy.start(ledger.url)] as const
  onTestFinished(async () => void (await Promise.all(proxies.map((proxy) => proxy.stop()))))
  const urls = [proxies[0].url, proxies[1].url] as const
  await withPair(
    stage,
    ledger,
    async (players) => {
      const first = players.gateway.active
      await times(4, async (turn) => {
        const proxyOf = (gateway: unknown) => proxies[gateway === first ? 0 : 1]
        const struck = await strike(stage, players, {
          fault: (gateway) => proxyOf(gateway).hold(direction),
        })
        // What was held arrives after all, when another one has written.
        await outage(stage, 100, 12_000)
        const standing = struck.untilLogged('standing by', 60_000)
        if (turn % 2 === 0) proxyOf(struck).release(direction)
        else proxyOf(struck).cut()
        await standing
      })
    },
    { urls },
  )
}

/** Of PostgreSQL, which fails in its own way: writes are refused, or it ends and cannot start before there is room. */
export async function diskFull(stage: Stage): Promise<void> {
  const disk = new SmallDisk(DISK_MB)
  const server = privatePostgres(join(disk.dir, 'pg'), {
    max_wal_size: '64MB',
    min_wal_size: '32MB',
  })
  onTestFinished(async () => {
    await server.stop()
    disk.remove()
  })
  await server.start()
  await withPair(stage, await databaseOn(server.url(), stage), (players) =>
    times(3, async () => {
      const repair = async () => {
        const { refused } = players.load.journal
        await players.load.until((journal) => journal.refused > refused + REFUSED)
        disk.free()
        if (server.pid === undefined) await server.start()
      }
      await strike(stage, players, { fault: () => disk.fill(), repair })
    }),
  )
}

/** Both gateways reach PostgreSQL through PgBouncer in transaction mode, which is killed and started again. */
export async function bouncerKilled(stage: Stage, server: PrivatePostgres): Promise<void> {
  const ledger = await databaseOn(server.url(), stage)
  const directory = temporaryDirectory()
  const bouncer = new Bouncer(join(directory.path, 'bouncer'), server.url())
  onTestFinished(async () => {
    await bouncer.kill9()
    directory.remove()
  })
  await bouncer.start()
  const url = bouncer.url(ledger.url)
  const play = (players: Pair) =>
    times(6, async () => {
      const repair = async () => {
        await outage(stage, 0, 2_000)
        await bouncer.start()
      }
      await strike(stage, players, { fault: () => bouncer.kill9(), repair })
    })
  await withPair(stage, ledger, play, { urls: [url, url] })
}
