/** The lease of the active gateway: taken, renewed, resigned; and what standbys ask about it. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../../logger.ts'
import type { LedgerClock } from './clock.ts'
import type { Connection, Row, Statement } from './connection.ts'

/** How long a lease lasts without being renewed, by the database's clock. */
export const LEASE_MS = 5_000
const RENEW_MS = 1_000
/** How often a standby asks whether the lease is free. */
const ASK_MS = 200
/** After so long without an answer another connection is tried: the host may be gone. */
const ANSWER_MS = 2_000
/** After how many of these a standby says that it is there, and for how long that counts. */
const ASKS_PER_SIGN = 10
const SIGN_MS = 10_000
/**
 * How long after the end of its lease a gateway that cannot reach the database waits for it, before it gives
 * RabbitMQ's messages back: another gateway may be active.
 */
const PATIENCE_MS = 15_000
/** Renewals slower than this, half of the last ten, make the ledger slow. */
export const SLOW_MS = 500
const KEPT_TIMES = 10

export interface LeadershipOptions {
  schema: string
  /** A UUID of this process. */
  owner: string
  /** Where clients reach this gateway. */
  url: () => string
  connect: () => Promise<Connection>
  clock: LedgerClock
  logger: Logger
}

/** A connection, and when what waits there for an answer was asked, oldest first. */
interface Line {
  connection: Promise<Connection>
  asked: number[]
}

/** What a standby knows. */
export interface Seen {
  /** Where the active gateway is; null: there is none, or the database does not say. */
  activeUrl: string | null
  /** Why the database cannot be asked. */
  fault: string | null
}

/**
 * Only the holder of the lease serves. The lease alone proves nothing: a process may be stopped at any place and
 * go on later. What it may still write is decided by the slot (`Slot.take`), which the next active gateway takes.
 */
export class Leadership {
  readonly #options: LeadershipOptions
  #line: Line | null = null
  #timer: NodeJS.Timeout | undefined
  #confirming: Promise<void> | null = null
  /** In our monotonic time, counted from before the renewal was sent: never later than the database's. */
  #until = Number.NEGATIVE_INFINITY
  #onLost: (() => void) | null = null
  #times: number[] = []
  #standbys = 0
  #seen: Seen = { activeUrl: null, fault: null }

  constructor(options: LeadershipOptions) {
    this.#options = options
  }

  get owner(): string {
    return this.#options.owner
  }

  get seen(): Seen {
    return this.#seen
  }

  /** How many other gateways wait for the lease. As of the last renewal. */
  get standbys(): number {
    return this.#standbys
  }

  /** The median of the last renewals, each of which is a commit; 0: there is none. */
  get commitMs(): number {
    return this.#times.toSorted((a, b) => a - b)[this.#times.length >> 1] ?? 0
  }

  /** Whether nobody else can have the lease, as far as clocks run alike. */
  get isHeld(): boolean {
    return this.#options.clock.monotonic() < this.#until
  }

  /**
   * The same; but if the lease was not renewed in time, the database is asked whether it is still ours: only this
   * process may have been slow.
   */
  async mayServe(): Promise<boolean> {
    if (this.isHeld || this.#onLost === null) return this.isHeld
    this.#confirming ??= this.#renew().finally(() => {
      this.#confirming = null
    })
    await this.#confirming
    return this.isHeld
  }

  /** Takes the lease if it is free. Rejects when the database cannot be asked. */
  async take(): Promise<boolean> {
    const { schema, owner, url } = this.#options
    const free = await this.#askInTime({
      text: `SELECT owner = $1 OR until <= clock_timestamp() AS is_free, url, ${NOW}
        FROM ${schema}.leader`,
      values: [owner],
    })
    const activeUrl = free?.['is_free'] === false ? String(free['url']) : null
    this.#seen = { activeUrl, fault: null }
    if (activeUrl !== null) return false
    const sentAt = this.#options.clock.monotonic()
    const taken = await this.#askInTime({
      text: `INSERT INTO ${schema}.leader AS old (owner, url, until) VALUES ($1, $2, ${END})
        ON CONFLICT (only_row) DO UPDATE SET owner = excluded.owner, url = excluded.url, until = ${END}
        WHERE old.until <= clock_timestamp() OR old.owner = excluded.owner RETURNING ${NOW}`,
      values: [owner, url()],
    })
    if (taken) this.#until = sentAt + LEASE_MS
    return taken !== undefined
  }

  /** Takes the lease when it becomes free. Rejects only when `signal` aborts. */
  async wait(signal: AbortSignal): Promise<void> {
    for (let asks = 0; ; asks++) {
      try {
        if (asks % ASKS_PER_SIGN === 0) await this.#sign()
        if (await this.take()) return
      } catch (error) {
        this.#note(error)
      }
      await sleep(ASK_MS, undefined, { signal })
    }
  }

  /** Renews the lease until `stop` or `resign`. `onLost`: somebody else has it, or may have it. Once. */
  keep(onLost: () => void): void {
    this.#onLost = onLost
    // Without waiting for the answer before. An answer that came while this process had no time is read first.
    this.#timer = setInterval(() => setImmediate(() => void this.#renew()), RENEW_MS).unref()
  }

  /** The ledger's fence has told it before the next renewal could. */
  lost(): void {
    const tell = this.#onLost
    this.#forget()
    tell?.()
  }

  /** Frees the lease: a standby need not wait for its end. Not before the ledger is closed. */
  async resign(): Promise<void> {
    this.#forget()
    const { schema, owner } = this.#options
    const text = `UPDATE ${schema}.leader SET until = '-infinity' WHERE owner = $1`
    const gone = `DELETE FROM ${schema}.standbys WHERE owner = $1`
    try {
      await this.#askInTime({ text, values: [owner] })
      await this.#askInTime({ text: gone, values: [owner] })
    } catch (error) {
      this.#options.logger.warn({ err: error }, 'the lease could not be given back')
    }
  }

  async close(): Promise<void> {
    this.#forget()
    const line = this.#line
    this.#line = null
    if (line !== null) await hangUp(line)
  }

  #forget(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#onLost = null
    this.#until = Number.NEGATIVE_INFINITY
  }

  /** Never rejects. */
  async #renew(): Promise<void> {
    const { schema, owner, clock, url } = this.#options
    const term = this.#onLost
    const isKept = () => term !== null && this.#onLost === term
    if (!isKept()) return
    const sentAt = clock.monotonic()
    try {
      const row = await this.#ask({
        text: `UPDATE ${schema}.leader SET until = ${END}, url = $2 WHERE owner = $1 RETURNING ${NOW},
          (SELECT count(*) FROM ${schema}.standbys WHERE owner <> $1
            AND seen_at > clock_timestamp() - interval '${SIGN_MS} ms')::int AS standbys`,
        values: [owner, url()],
      })
      if (!isKept()) return
      if (!row) return this.lost()
      this.#until = Math.max(this.#until, sentAt + LEASE_MS)
      this.#standbys = Number(row['standbys'])
      this.#times = [...this.#times.slice(1 - KEPT_TIMES), clock.monotonic() - sentAt]
      this.#seen = { activeUrl: null, fault: null }
    } catch (error) {
      // A later one may have been answered, over another connection.
      if (!isKept() || this.#until > sentAt + LEASE_MS) return
      this.#note(error)
      if (clock.monotonic() > this.#until + PATIENCE_MS) this.lost()
    }
  }

  /** For the active gateway, which tells how many there are. */
  async #sign(): Promise<void> {
    const { schema, owner, url } = this.#options
    await this.#askInTime({
      text: `WITH gone AS (DELETE FROM ${schema}.standbys WHERE seen_at < clock_timestamp() - interval '1 day')
        INSERT INTO ${schema}.standbys VALUES ($1, $2, clock_timestamp())
        ON CONFLICT (owner) DO UPDATE SET url = excluded.url, seen_at = excluded.seen_at`,
      values: [owner, url()],
    })
  }

  #note(error: unknown): void {
    const fault = error instanceof Error ? error.message : String(error)
    if (this.#seen.fault === null)
      this.#options.logger.error({ err: error }, 'the lease cannot be asked for')
    this.#seen = { activeUrl: null, fault }
  }

  #askInTime(statement: Statement): Promise<Row | undefined> {
    return this.#ask(statement, inTime)
  }

  async #ask(
    statement: Statement,
    waitFor = <T>(answer: Promise<T>) => answer,
  ): Promise<Row | undefined> {
    const { clock } = this.#options
    const line = this.#nextLine()
    const askedAt = clock.monotonic()
    line.asked.push(askedAt)
    try {
      const connection = await line.connection
      const sentAt = clock.monotonic()
      const [result] = await waitFor(connection.ask([statement]))
      if (result?.status !== 'fulfilled') throw result?.reason
      const [row] = result.value.rows
      if (typeof row?.['db_now'] === 'number') clock.sample(row['db_now'], sentAt)
      return row
    } catch (error) {
      // Whatever it was: the next host may be the writable one by now.
      if (this.#line === line) this.#line = null
      throw error
    } finally {
      line.asked.splice(line.asked.indexOf(askedAt), 1)
      if (this.#line !== line && line.asked.length === 0) void hangUp(line)
    }
  }

  /** Not one that has not answered in time; what was asked there may be answered all the same, and counts. */
  #nextLine(): Line {
    const { clock, connect } = this.#options
    const oldest = this.#line?.asked[0] ?? Number.POSITIVE_INFINITY
    if (clock.monotonic() - oldest >= ANSWER_MS) this.#line = null
    this.#line ??= { connection: connect(), asked: [] }
    return this.#line
  }
}

async function hangUp({ connection }: Line): Promise<void> {
  await connection.then((open) => open.close()).catch(() => {})
}

/** Rejects if the answer does not come in time. One that has come while this process had no time counts. */
function inTime<T>(answer: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new Error(`PostgreSQL has not answered for ${ANSWER_MS} ms`))
    const timer = setTimeout(() => setImmediate(late), ANSWER_MS)
    void answer.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}

const NOW = `(extract(epoch FROM clock_timestamp()) * 1000)::float8 AS db_now`
const END = `clock_timestamp() + interval '${LEASE_MS} ms'`
