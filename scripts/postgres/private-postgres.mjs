import {
  chmodSync,
  chownSync,
  closeSync,
  mkdirSync,
  openSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort, takesConnections } from '../process/ports.mjs'
import { endProcess, guard, signalProcess, spawnHeld, unguard } from '../process/processes.mjs'
import { Refusal } from '../process/progress.mjs'
import { readText } from '../process/read-text.mjs'
import { run, tail } from '../process/run.mjs'

const START_TIMEOUT_MS = 120_000
/** A fast shutdown writes a checkpoint. */
const STOP_TIMEOUT_MS = 20_000
const USER = 'ojs'
/** Our own temporary folders, which others may be let through. */
const OURS = /^ojs-/

/**
 * @typedef {object} PrivatePostgresOptions
 * @property {string} bin folder of `postgres` and `initdb`
 * @property {string} dir folder of its own, which is made; the data stays there
 * @property {string} password of its only user, `ojs`
 * @property {Readonly<Record<string, string>>} [settings] of postgresql.conf
 */

/**
 * A PostgreSQL of the installed package with data and port of its own. It listens on 127.0.0.1 only, and asks
 * for the password there. PostgreSQL refuses to run as root, so root runs it as the package's user.
 */
export class PrivatePostgres {
  #options
  #port = 0
  /** @type {{ pid: number, exited: Promise<void> } | undefined} */
  #server

  /** @param {PrivatePostgresOptions} options */
  constructor(options) {
    this.#options = options
  }

  get port() {
    return this.#port
  }

  /** Of the postmaster; undefined while it is down. */
  get pid() {
    return this.#server?.pid
  }

  /** Settles when the server that runs now has ended, for whatever reason. */
  get exited() {
    return this.#server?.exited ?? Promise.resolve()
  }

  get data() {
    return join(this.#options.dir, 'data')
  }

  url(query = '') {
    const credentials = `${USER}:${encodeURIComponent(this.#options.password)}`
    return `postgres://${credentials}@127.0.0.1:${this.#port}/postgres${query}`
  }

  /** Makes the data if there are none, and resolves when the server accepts connections. */
  async start() {
    const { dir, bin, settings = {} } = this.#options
    this.#port ||= await freePort()
    const account = await accountOf(dir)
    const options = { ...account, cwd: dir, env: { PATH: process.env['PATH'], LC_ALL: 'C.UTF-8' } }
    await this.#makeData(options)
    const own = {
      port: String(this.#port),
      listen_addresses: '127.0.0.1',
      unix_socket_directories: '',
    }
    const args = Object.entries({ ...own, ...settings }).flatMap(([k, v]) => ['-c', `${k}=${v}`])
    const log = openSync(this.#log, 'a')
    const { child, letGo } = spawnHeld(join(bin, 'postgres'), ['-D', this.data, ...args], {
      ...options,
      detached: true,
      output: log,
    })
    closeSync(log)
    const { pid } = child
    if (!pid) throw new Error(`cannot run ${bin}/postgres`)
    guard(pid)
    letGo()
    const exited = new Promise((resolve) => child.once('exit', resolve)).then(() =>
      this.#forget(pid),
    )
    this.#server = { pid, exited }
    await this.#untilReady(pid)
    return this
  }

  /** Like a power cut, as far as the processes go. */
  async kill9() {
    const { pid, exited } = this.#server ?? {}
    if (!pid) return
    signalProcess(pid, 'SIGKILL')
    await exited
  }

  async stop() {
    // SIGINT: ends open transactions. With SIGTERM it would wait for its clients.
    if (this.#server)
      await endProcess(this.#server.pid, this.#server.exited, STOP_TIMEOUT_MS, 'SIGINT')
  }

  get #log() {
    return join(this.#options.dir, 'postgres.log')
  }

  /** @param {import('node:child_process').SpawnOptions} options */
  async #makeData(options) {
    const { dir, bin, password } = this.#options
    if ((await run(join(bin, 'postgres'), ['-D', this.data, '-C', 'port'], options)).code === 0)
      return
    // A file, because everybody can read the arguments of a process.
    const secret = join(dir, 'password')
    writeFileSync(secret, password, { mode: 0o600 })
    if (options.uid !== undefined) chownSync(secret, options.uid, options.gid ?? 0)
    const user = ['-U', USER, '--auth=scram-sha-256', `--pwfile=${secret}`]
    // Not synced: the server does that itself, and a folder that was cut short is made again.
    const args = ['-D', this.data, ...user, '--encoding=UTF8', '--no-locale', '--no-sync']
    const made = await run(join(bin, 'initdb'), args, options)
    if (made.code !== 0) throw new Error(`initdb failed:\n${tail(made.output)}`)
  }

  /** @param {number} pid */
  async #untilReady(pid) {
    const deadline = Date.now() + START_TIMEOUT_MS
    while (this.#server?.pid === pid && Date.now() < deadline) {
      if (isReady(this.data, pid) && (await takesConnections(this.#port))) return
      await sleep(20)
    }
    throw new Error(`PostgreSQL did not start:\n${tail(readFileSync(this.#log, 'utf8'))}`)
  }

  /** @param {number} pid */
  #forget(pid) {
    unguard(pid)
    if (this.#server?.pid === pid) this.#server = undefined
  }
}

/**
 * What the server's own file says; after a crash, one of the server before may be there.
 * @param {string} data
 * @param {number} pid
 */
function isReady(data, pid) {
  const lines = readText(join(data, 'postmaster.pid')).split('\n')
  return lines[0] === String(pid) && ['ready', 'standby'].includes(lines[7]?.trim() ?? '')
}

/**
 * Makes the folder, for the account that the server runs as: our own, or for root that of the package.
 * @param {string} dir
 */
export async function accountOf(dir) {
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  if (process.getuid?.() !== 0) return {}
  const [uid, gid] = await Promise.all(
    ['-u', '-g'].map(async (which) => Number((await run('id', [which, 'postgres'])).output)),
  )
  if (!uid || !gid)
    throw new Refusal('PostgreSQL does not run as root, and there is no user postgres.')
  chownSync(dir, uid, gid)
  letThrough(dirname(dir))
  return { uid, gid }
}

/**
 * Lets others through (not see) our own temporary folders above the data. Of another folder, only its owner may
 * decide that.
 * @param {string} folder
 */
function letThrough(folder) {
  const { mode } = statSync(folder)
  if (!(mode & 0o001)) {
    if (!OURS.test(basename(folder)))
      throw new Refusal(
        `PostgreSQL does not run as root, and its user postgres may not enter ${folder}. ` +
          `Let it through (chmod o+x ${folder}), or run this as another user than root.`,
      )
    chmodSync(folder, (mode & 0o777) | 0o011)
  }
  if (dirname(folder) !== folder) letThrough(dirname(folder))
}
