/** One connection to the writable host of a PostgreSQL ledger. Sets nothing that outlives a transaction. */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ConnectionOptions, checkServerIdentity, type PeerCertificate } from 'node:tls'
import type { Client, QueryResultRow } from 'pg'
import { messageOf } from '../../errors.ts'
import { isSocketFolder, type PostgresAddress, type PostgresHost, shownHost } from './address.ts'

export interface Statement {
  text: string
  values?: readonly unknown[]
}

export type Row = QueryResultRow

/** Of a statement, or of the last of several in one text. */
export interface Answer {
  /** Of the command that ran: `COMMIT` answers `ROLLBACK` in a failed transaction, and fails not. */
  command: string
  rows: readonly Row[]
}

/** No host can be used. The message has each host with its reason, and no password. */
export class NoWritableHost extends Error {
  override readonly name = 'NoWritableHost'
}

const NO_ANSWER: Answer = { command: '', rows: [] }

/** `int8`; every one of ours is a safe integer, which `pg` would return as text. */
const INT8 = 20

/** A connection that has been opened; when it is lost, what is asked rejects. It never reconnects. */
export class Connection {
  readonly host: PostgresHost
  #client: Client
  #isLost = false

  constructor(client: Client, host: PostgresHost) {
    this.#client = client
    this.host = host
    client.once('end', () => {
      this.#isLost = true
    })
  }

  /** Whether it is known to have ended: what is asked now will not be sent. */
  get isLost(): boolean {
    return this.#isLost
  }

  /**
   * Sends all statements in one flush. The answers, in order: each what it returned, or why it failed. After a
   * failure inside of a transaction, the statements behind it fail too (25P02).
   */
  ask(statements: readonly Statement[]): Promise<PromiseSettledResult<Answer>[]> {
    return Promise.allSettled(statements.map((statement) => this.#one(statement)))
  }

  async #one({ text, values }: Statement): Promise<Answer> {
    // The simple protocol, which runs several statements at once, is what `pg` uses without values.
    const result: Answer | Answer[] = await this.#client.query<Row>(text, values && [...values])
    const { command, rows } = (Array.isArray(result) ? result.at(-1) : result) ?? NO_ANSWER
    return { command, rows }
  }

  /** Ends at once; what is on its way is lost. */
  async close(): Promise<void> {
    await this.#client.end().catch(() => {})
  }
}

export interface Timeouts {
  /** To connect to one host. */
  connectMs: number
  /** For the answer to one statement, after which the connection counts as lost; 0: none. */
  answerMs: number
}

/** Of several hosts, those that have not answered so long after the first writable one are not waited for. */
const GRACE_MS = 500

/** The newest timeline that was used, of addresses with several hosts. */
const timelines = new WeakMap<PostgresAddress, number>()

interface Writable {
  connection: Connection
  /** Which grows with each failover; 0: unknown. */
  timeline: number
}

/**
 * Connects to the writable host. Rejects with `NoWritableHost` if there is none. After a failover the old primary
 * may come back, writable as if nothing had been: the newest timeline counts, and none older than one that was
 * used before.
 */
export async function connectWritable(
  address: PostgresAddress,
  timeouts: Timeouts,
): Promise<Connection> {
  const reasons = address.hosts.map((host) => `${shownHost(host)}: does not answer`)
  const found = await writableHosts(address, timeouts, (i, error) => {
    reasons[i] = `${shownHost(address.hosts[i] as PostgresHost)}: ${reasonOf(error)}`
  })
  const known = timelines.get(address) ?? 0
  const newest = Math.max(...found.map(({ timeline }) => timeline))
  const chosen = found.find(({ timeline }) => timeline === newest && newest >= known)
  for (const { connection } of found) if (connection !== chosen?.connection) void connection.close()
  if (chosen) {
    timelines.set(address, newest)
    return chosen.connection
  }
  if (found.length > 0) reasons.push(`timeline ${known} was in use, and is not there`)
  throw new NoWritableHost(`no writable PostgreSQL: ${reasons.join('; ')}`)
}

/** In the order of the address. All hosts are asked at once: one whose machine is gone would delay the next. */
async function writableHosts(
  address: PostgresAddress,
  timeouts: Timeouts,
  fail: (host: number, error: unknown) => void,
): Promise<Writable[]> {
  const found: (Writable | undefined)[] = []
  let isOver = false
  const tries = address.hosts.map(async (host, i) => {
    try {
      const writable = await writableAt(address, host, timeouts)
      if (isOver) return await writable.connection.close()
      found[i] = writable
    } catch (error) {
      fail(i, error)
      throw error
    }
  })
  const all = Promise.allSettled(tries)
  const first = Promise.any(tries).then(() => sleep(GRACE_MS, undefined, { ref: false }))
  await Promise.race([all, first.catch(() => all)])
  isOver = true
  return found.filter((writable) => writable !== undefined)
}

async function writableAt(
  address: PostgresAddress,
  host: PostgresHost,
  timeouts: Timeouts,
): Promise<Writable> {
  const connection = await connectTo(address, host, timeouts)
  if (address.hosts.length === 1) return { connection, timeline: 0 }
  const [answer] = await connection.ask([{ text: TIMELINE }])
  // Not every service that speaks PostgreSQL's protocol has one.
  const timeline = answer?.status === 'fulfilled' ? Number(answer.value.rows[0]?.['timeline']) : 0
  return { connection, timeline }
}

/** The first eight digits, hexadecimal, of the name of the WAL file that is written. */
const TIMELINE = `SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int AS timeline`

async function connectTo(address: PostgresAddress, host: PostgresHost, timeouts: Timeouts) {
  const client = await clientFor(address, host, timeouts)
  // A lost connection also rejects what was asked; without a listener it would end the process.
  client.on('error', () => {})
  try {
    await client.connect()
    const { rows } = await client.query<{ readonly: boolean }>(
      `SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' AS readonly`,
    )
    if (rows[0]?.readonly !== false) throw new Error('is read-only')
    return new Connection(client, host)
  } catch (error) {
    await client.end().catch(() => {})
    throw error
  }
}

async function clientFor(
  address: PostgresAddress,
  { host, port }: PostgresHost,
  { connectMs, answerMs }: Timeouts,
) {
  // Not a static import: a gateway on SQLite does not load it.
  const { default: pg } = await import('pg')
  const types = {
    getTypeParser: ((oid: number, format?: 'text' | 'binary') =>
      oid === INT8
        ? Number
        : pg.types.getTypeParser(oid, format as 'text')) as typeof pg.types.getTypeParser,
  }
  return new pg.Client({
    host,
    port,
    user: address.user ?? undefined,
    password: address.password ?? undefined,
    database: address.database,
    ssl: isSocketFolder(host) ? false : tlsOptions(address, host),
    connectionTimeoutMillis: connectMs,
    query_timeout: answerMs,
    keepAlive: true,
    pipeline: true,
    types,
  })
}

function tlsOptions(
  { sslMode, rootCertificate }: PostgresAddress,
  host: string,
): false | ConnectionOptions {
  if (sslMode === 'disable') return false
  const ca = rootCertificate === null ? {} : { ca: readFileSync(rootCertificate, 'utf8') }
  const anyName = { checkServerIdentity: () => undefined }
  // As libpq: `require` checks the certificate if it is told who may have signed it.
  if (sslMode === 'require' && rootCertificate === null) return { rejectUnauthorized: false }
  if (sslMode !== 'verify-full') return { ...ca, ...anyName }
  // `pg` tells TLS no name for a host that is an IP address, and TLS would then check for 'localhost'.
  const ofHost = (_: string, certificate: PeerCertificate) => checkServerIdentity(host, certificate)
  return { ...ca, checkServerIdentity: ofHost }
}

/** A refused connection to several addresses of a name has its reasons in a list, and no message. */
function reasonOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(messageOf).join(', ')
  return messageOf(error)
}
