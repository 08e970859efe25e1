import { setTimeout as sleep } from 'node:timers/promises'
import { OjsClient } from './client.ts'
import { Gateway, type GatewayOptions } from './gateway.ts'
import type { LogLine, LogTail } from './log-tail.ts'
import type { TestLedger } from './test-ledger.ts'

/** How often the balancer asks. */
const ASK_MS = 100
const LOOK_AGAIN_MS = 10

/** Two gateways on one ledger, behind a load balancer that asks for `/readyz`. */
export class GatewayPair {
  /** Goes to the one that is ready, or was. */
  readonly client: OjsClient = new OjsClient(() => this.#active.url)
  readonly #timer = setInterval(() => void this.#balance(), ASK_MS).unref()
  #active: Gateway
  #standby: Gateway
  #isAsking = false

  private constructor(active: Gateway, standby: Gateway) {
    this.#active = active
    this.#standby = standby
  }

  /** Each with its options: they may reach the ledger by ways of their own. */
  static async start(options: readonly [GatewayOptions, GatewayOptions]): Promise<GatewayPair> {
    const active = await Gateway.start(options[0])
    await active.untilHealthy()
    return new GatewayPair(active, await Gateway.start(options[1]))
  }

  get active(): Gateway {
    return this.#active
  }

  get standby(): Gateway {
    return this.#standby
  }

  /** Of the active one. */
  get log(): LogTail {
    return this.#active.log
  }

  get ledger(): TestLedger {
    return this.#active.ledger
  }

  /** A line that the one which is active by then writes from now on, if it is its newest of these. */
  async untilLogged(
    msg: string,
    timeoutMs: number,
    wanted: (line: LogLine) => boolean = () => true,
  ): Promise<LogLine> {
    const since = Date.now()
    while (Date.now() < since + timeoutMs) {
      const line = this.log.last(msg)
      if (line && Date.parse(line.time) > since && wanted(line)) return line
      await sleep(LOOK_AGAIN_MS)
    }
    throw new Error(`no gateway has logged "${msg}" within ${timeoutMs} ms:\n${this.log.tail()}`)
  }

  /** The standby first, which would take over. Returns the exit code of the active one. */
  async stop(): Promise<number | null> {
    clearInterval(this.#timer)
    await this.#standby.stop()
    return await this.#active.stop()
  }

  async dispose(): Promise<void> {
    clearInterval(this.#timer)
    this.client.close()
    await Promise.all([this.#active.dispose(), this.#standby.dispose()])
    await this.ledger.remove()
  }

  async #balance(): Promise<void> {
    if (this.#isAsking) return
    this.#isAsking = true
    const [active, standby] = [this.#active, this.#standby]
    const { status } = await standby.client.send('GET', '/readyz')
    this.#isAsking = false
    if (status !== 200 || this.#active !== active) return
    this.#active = standby
    this.#standby = active
  }
}
