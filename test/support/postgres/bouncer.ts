import { type ChildProcess, spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { accountOf } from '../../../scripts/postgres/private-postgres.mjs'
import { freePort, takesConnections } from '../../../scripts/process/ports.mjs'
import { guard, unguard } from '../../../scripts/process/processes.mjs'
import { findExecutable } from '../../../scripts/process/run.mjs'
import { eventually } from '../gateway/in-process.ts'

const PROGRAM = findExecutable('pgbouncer', ['/usr/sbin'])

export const hasBouncer = PROGRAM !== undefined

/** Debian's PgBouncer in transaction mode, in front of any database of one server. */
export class Bouncer {
  readonly #dir: string
  readonly #server: URL
  #port = 0
  #child: ChildProcess | undefined
  #exited: Promise<unknown> = Promise.resolve()

  readonly #sessions: number

  /** `dir`: a folder of its own. `sessions`: how many it has at the server, for each database. */
  constructor(dir: string, serverUrl: string, sessions = 20) {
    this.#sessions = sessions
    this.#dir = dir
    this.#server = new URL(serverUrl)
  }

  /** Of the same database as the server's `url`. */
  url(url: string): string {
    const through = new URL(url)
    through.port = String(this.#port)
    return through.href
  }

  async start(): Promise<void> {
    this.#port ||= await freePort()
    const account = await accountOf(this.#dir)
    const file = this.#writeFiles()
    const child = spawn(PROGRAM ?? 'pgbouncer', [file], { ...account, stdio: 'ignore' })
    this.#child = child
    const { pid } = child
    if (pid !== undefined) guard(pid)
    this.#exited = new Promise((resolve) => {
      child.once('exit', resolve)
      child.once('error', resolve)
    })
    void this.#exited.then(() => pid !== undefined && unguard(pid))
    await eventually(() => takesConnections(this.#port))
  }

  /** Its connections to both sides end. */
  async kill9(): Promise<void> {
    this.#child?.kill('SIGKILL')
    await this.#exited
  }

  #writeFiles(): string {
    const { hostname, port, username, password } = this.#server
    const [user, secret] = [username, password].map(decodeURIComponent)
    const users = join(this.#dir, 'users.txt')
    writeFileSync(users, `"${user}" "${secret}"\n`, { mode: 0o644 })
    const file = join(this.#dir, 'pgbouncer.ini')
    const text = `[databases]
* = host=${hostname} port=${port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${this.#port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = ${users}
pool_mode = transaction
default_pool_size = ${this.#sessions}
logfile = ${join(this.#dir, 'pgbouncer.log')}
`
    writeFileSync(file, text)
    return file
  }
}
