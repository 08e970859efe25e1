/** Does a commit survive the loss of the database's machine? Asked from time to time, and told to operators. */
import type { LedgerWarning } from '../known.ts'
import type { Row } from './connection.ts'

const ASK_MS = 60_000

/** Of these levels, a commit waits until it is on the standby's disk, if there is a standby to wait for. */
const WAITING = ['on', 'remote_apply']

const SETTINGS = `SELECT current_setting('fsync') AS fsync,
  current_setting('full_page_writes') AS full_page_writes,
  current_setting('synchronous_commit') AS synchronous_commit,
  current_setting('synchronous_standby_names') AS synchronous_standby_names`

export interface DurabilityOptions {
  rows: (text: string) => Promise<readonly Row[]>
  /** The operator says that the storage below PostgreSQL is replicated. */
  isStorageReplicated: boolean
}

export class Durability {
  readonly #options: DurabilityOptions
  #timer: NodeJS.Timeout | undefined
  /** Null: not known yet. */
  #settings: Row | null = null

  constructor(options: DurabilityOptions) {
    this.#options = options
  }

  /** Whether what was answered survives the loss of any one machine. */
  get isReplicated(): boolean {
    return this.#settings !== null && this.#lacking().length === 0
  }

  /** Never rejects: what is not known is asked again. */
  async start(): Promise<void> {
    await this.#ask()
    this.#timer = setInterval(() => void this.#ask(), ASK_MS)
    this.#timer.unref()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  warnings(): LedgerWarning[] {
    const lacking = this.#settings === null ? [] : this.#lacking()
    if (lacking.length === 0) return []
    const message = `The loss of PostgreSQL's machine loses jobs that were answered with success: ${lacking.join('; ')}.`
    return [{ code: 'ledger_not_replicated', message, details: { ...this.#settings } }]
  }

  async #ask(): Promise<void> {
    const [settings] = await this.#options.rows(SETTINGS).catch(() => [])
    if (settings) this.#settings = settings
  }

  #lacking(): string[] {
    const { fsync, full_page_writes, synchronous_commit, synchronous_standby_names } =
      this.#settings ?? {}
    const isWaiting =
      synchronous_standby_names !== '' && WAITING.includes(String(synchronous_commit))
    return [
      ...(fsync === 'on' ? [] : ['fsync is off']),
      ...(full_page_writes === 'on' ? [] : ['full_page_writes is off']),
      ...(synchronous_commit === 'off' ? ['synchronous_commit is off'] : []),
      ...(isWaiting || this.#options.isStorageReplicated
        ? []
        : ['no commit waits for a standby (synchronous_standby_names, synchronous_commit)']),
    ]
  }
}
