/** A gateway whose ledger others share: stands by, takes over, and stands by again when it has lost the lease. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Leadership } from './ledger/postgres/leadership.ts'
import type { Service } from './lifecycle.ts'
import type { Logger } from './logger.ts'

/** What serves: the whole gateway, or the door of one that stands by. */
export interface Serving {
  readonly url: string
  stop(deadline: AbortSignal): Promise<void>
}

export interface FailoverParts {
  leadership: Pick<Leadership, 'take' | 'wait' | 'keep' | 'resign' | 'close'>
  logger: Logger
  /** To be listened on; 0: any free one. */
  port: number
  /** Opens the ledger, which fences whoever had it, and serves. Stops `door` before it listens on its port. */
  activate(port: number, door: Service): Promise<Serving>
  /** Listens and tells clients that this gateway stands by. */
  openDoor(port: number): Promise<Serving>
}

/** What is under way is cut off then: it could not be committed. */
const DEPOSED_MS = 5_000
/** What a standby has to answer takes no time. */
const DOOR_MS = 500
/** After a take-over that failed. Meanwhile another gateway may try. */
const PAUSE_MS = 1_000

/**
 * Takes over in this order: the lease; the ledger, which fences the gateway before, so that it can write no more
 * whatever it does; RabbitMQ; then the port. Loses in the reverse order.
 */
export class Failover implements Serving {
  readonly #parts: FailoverParts
  readonly #stopping = new AbortController()
  #serving: Serving | null = null
  #door: Serving | null = null
  #url = ''
  #running: Promise<void> = Promise.resolve()

  constructor(parts: FailoverParts) {
    this.#parts = parts
  }

  get url(): string {
    return this.#url
  }

  /** Resolves when it listens, as the active gateway or as one that stands by. */
  async start(): Promise<this> {
    try {
      const isFirst = await this.#parts.leadership.take()
      const lost = isFirst ? await this.#serve() : null
      if (lost === null) await this.#openDoor()
      this.#running = this.#run(lost)
    } catch (error) {
      await this.#end()
      throw error
    }
    return this
  }

  async stop(deadline: AbortSignal): Promise<void> {
    this.#stopping.abort()
    await this.#running
    await this.#serving?.stop(deadline)
    await this.#end()
  }

  /** Never rejects. `lost`: of the present term; null: this gateway stands by. */
  async #run(lost: AbortSignal | null): Promise<void> {
    const { signal } = this.#stopping
    for (let term = lost; !signal.aborted; term = await this.#regain()) {
      if (term === null) continue
      await aborted(term, signal)
      if (!signal.aborted) await this.#yield()
    }
  }

  /** Begins a term: serves. The signal aborts when the lease is lost. Rejects when it cannot serve. */
  async #serve(): Promise<AbortSignal> {
    const lost = new AbortController()
    this.#parts.leadership.keep(() => lost.abort())
    const door = { name: 'standby door', start: () => this.#closeDoor(), stop: async () => {} }
    this.#serving = await this.#parts.activate(this.#port, door)
    this.#url = this.#serving.url
    return lost.signal
  }

  async #yield(): Promise<void> {
    this.#parts.logger.error({}, 'the lease is lost: another gateway is active, or may be')
    const serving = this.#serving
    this.#serving = null
    await serving?.stop(AbortSignal.timeout(DEPOSED_MS))
  }

  /** Stands by until the next term; null: this gateway stops. */
  async #regain(): Promise<AbortSignal | null> {
    const { leadership, logger } = this.#parts
    const { signal } = this.#stopping
    for (;;) {
      try {
        await this.#openDoor()
        await leadership.wait(signal)
        logger.warn({}, 'taking over')
        return await this.#serve()
      } catch (error) {
        if (signal.aborted) return null
        logger.error({ err: error }, 'the take-over failed')
        await leadership.resign()
        await sleep(PAUSE_MS, undefined, { signal }).catch(() => {})
      }
    }
  }

  async #openDoor(): Promise<void> {
    if (this.#door !== null) return
    this.#door = await this.#parts.openDoor(this.#port)
    this.#url = this.#door.url
    this.#parts.logger.info({ url: this.#url }, 'standing by')
  }

  get #port(): number {
    return this.#url === '' ? this.#parts.port : Number(new URL(this.#url).port)
  }

  async #closeDoor(): Promise<void> {
    const door = this.#door
    this.#door = null
    await door?.stop(AbortSignal.timeout(DOOR_MS))
  }

  async #end(): Promise<void> {
    await this.#closeDoor()
    await this.#parts.leadership.resign()
    await this.#parts.leadership.close()
  }
}

/** Resolves when one of them aborts. */
function aborted(...signals: AbortSignal[]): Promise<void> {
  return new Promise((resolve) => {
    const any = AbortSignal.any(signals)
    if (any.aborted) resolve()
    else any.addEventListener('abort', () => resolve(), { once: true })
  })
}
