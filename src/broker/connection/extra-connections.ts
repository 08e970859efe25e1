/** Connections for single tasks that may cost a connection; never reopened. */
import type { ChannelModel } from 'amqplib'
import { openModel, type PeerOptions, streamOf } from '../amqplib/connect.ts'

export interface Beside {
  model: ChannelModel
  end(): void
}

/** Opens connections for what may cost a connection. The caller ends each; none is ever reopened. */
export class ExtraConnections {
  readonly #url: URL | undefined
  readonly #options: PeerOptions
  readonly #ends = new Set<() => void>()
  #isClosed = false

  constructor(url: URL | undefined, options: PeerOptions) {
    this.#url = url
    this.#options = options
  }

  async open(name: string): Promise<Beside> {
    if (this.#url === undefined || this.#isClosed)
      throw new Error('no additional connection to RabbitMQ can be opened')
    const { connectionName, heartbeatS } = this.#options
    const socket = new AbortController()
    const peer = { connectionName: `${connectionName} ${name}`, heartbeatS }
    let model: ChannelModel | undefined
    const end = () => {
      this.#ends.delete(end)
      // Node.js does not document that aborting the signal closes a TLS socket, too.
      if (model) streamOf(model)?.destroy()
      socket.abort()
    }
    this.#ends.add(end)
    try {
      model = await openModel(this.#url, peer, socket)
      socket.signal.throwIfAborted()
    } catch (error) {
      end()
      throw error
    }
    return { model, end }
  }

  /** Ends all of them, and opens no other. */
  close(): void {
    this.#isClosed = true
    for (const end of this.#ends) end()
  }
}
