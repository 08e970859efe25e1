import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  accountOf,
  PrivatePostgres,
  type PrivatePostgresOptions,
} from '../../../scripts/postgres/private-postgres.mjs'
import { run, tail } from '../../../scripts/process/run.mjs'

/** A PostgreSQL that may follow another one. */
export class Replica extends PrivatePostgres {
  readonly #options: PrivatePostgresOptions

  constructor(options: PrivatePostgresOptions) {
    super(options)
    this.#options = options
  }

  /** Before its first start: a copy of the primary, which follows it. */
  copy(primary: PrivatePostgres): Promise<void> {
    const from = ['-d', primary.url(), '-X', 'stream', '-c', 'fast', '-R']
    return this.#run('pg_basebackup', ['-D', this.data, ...from])
  }

  /** After it was the primary and has ended, however: follows the new one. */
  async rewind(primary: PrivatePostgres): Promise<void> {
    await this.#run('pg_rewind', ['-D', this.data, '--source-server', primary.url(), '-R'])
  }

  /** While it follows: it is the primary from now on, and waits for no standby (which Patroni sees to, too). */
  async promote(): Promise<void> {
    const file = join(this.data, 'postgresql.auto.conf')
    appendFileSync(file, "synchronous_standby_names = ''\n")
    await this.#run('pg_ctl', ['reload', '-D', this.data])
    await this.#run('pg_ctl', ['promote', '-D', this.data])
  }

  async #run(name: string, args: readonly string[]): Promise<void> {
    const { bin, dir } = this.#options
    const account = await accountOf(dir)
    const { code, output } = await run(join(bin, name), args, {
      ...account,
      cwd: dir,
      env: { PATH: process.env['PATH'], LC_ALL: 'C.UTF-8' },
    })
    if (code !== 0) throw new Error(`${name} failed:\n${tail(output)}`)
  }
}
