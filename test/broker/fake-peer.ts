import { EventEmitter, once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import { defs, type Frame, takeFrames } from '../support/broker/amqp-codec.ts'

export interface Published {
  channel: number
  /** Delivery tag on its channel, from 1. */
  tag: number
  messageId: string
  exchange: string
  routingKey: string
  mandatory: boolean
  headers: Record<string, unknown>
}

interface Conversation {
  rest: Buffer
  /** Last delivery tag of each channel. */
  tags: Map<number, number>
  /** A publish whose properties have not come yet. */
  publish: Omit<Published, 'messageId' | 'headers'> | null
}

/**
 * Speaks just enough AMQP 0-9-1 to be connected to and published to, and then does what a real
 * broker will not do on demand. Emits `publish` with a `Published`.
 */
export class FakePeer extends EventEmitter {
  readonly published: Published[] = []
  connections = 0
  /** Fields of the last frame of each method, by name. */
  readonly received = new Map<string, Record<string, unknown>>()
  /** Answers that replace the usual ones, by the method that they answer. */
  readonly refusals = new Map<string, [method: string, fields: object]>()
  /** Methods that are never answered, by name. */
  readonly unanswered = new Set<string>()
  /** Number of connections that are closed in the packet that opens them. */
  closedAtOnce = 0
  /** The reply code of that close. */
  closeCode = 320
  /** Whether a reset follows that close at once, so that amqplib cannot answer it. */
  resetsAtOnce = false
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  #socket: Socket | null = null

  private constructor() {
    super()
    this.#server = createServer((socket) => this.#serve(socket))
  }

  /** On any port, unless one of `freePort` is given: a peer that is started again needs its old port. */
  static async start(port = 0): Promise<FakePeer> {
    const peer = new FakePeer()
    peer.#server.listen(port, '127.0.0.1')
    await once(peer.#server, 'listening')
    return peer
  }

  get port(): number {
    const address = this.#server.address()
    return typeof address === 'object' && address ? address.port : 0
  }

  get url(): string {
    return `amqp://guest:secret@127.0.0.1:${this.port}`
  }

  /** Connections that have not ended. */
  get open(): number {
    return this.#sockets.size
  }

  async until(count: number): Promise<Published[]> {
    while (this.published.length < count) await once(this, 'publish')
    return this.published
  }

  ack({ channel, tag }: Published, multiple = false): void {
    this.send(channel, 'BasicAck', { deliveryTag: tag, multiple })
  }

  nack({ channel, tag }: Published): void {
    this.send(channel, 'BasicNack', { deliveryTag: tag, multiple: false, requeue: false })
  }

  returnToSender(
    returned: Pick<Published, 'channel' | 'messageId' | 'exchange' | 'routingKey'>,
  ): void {
    const { channel, messageId, exchange, routingKey } = returned
    const fields = { replyCode: 312, replyText: 'NO_ROUTE', exchange, routingKey }
    this.send(channel, 'BasicReturn', fields)
    this.#socket?.write(defs.encodeProperties(idOf('BasicProperties'), channel, 0, { messageId }))
  }

  /** An empty message. */
  deliver(channel: number, consumerTag: string): void {
    const fields = { consumerTag, deliveryTag: 1, redelivered: false, exchange: '', routingKey: '' }
    this.send(channel, 'BasicDeliver', fields)
    this.#socket?.write(defs.encodeProperties(idOf('BasicProperties'), channel, 0, {}))
  }

  closeChannel(channel: number, replyCode: number): void {
    this.send(channel, 'ChannelClose', { replyCode, replyText: 'TEST', classId: 0, methodId: 0 })
  }

  send(channel: number, method: string, fields: object): void {
    this.#socket?.write(defs.encodeMethod(idOf(method), channel, fields))
  }

  /** Sends in one packet what `send` sends in several. */
  inOnePacket(send: () => void): void {
    this.#socket?.cork()
    send()
    this.#socket?.uncork()
  }

  /** Stops listening on the port; connections stay. */
  async deafen(): Promise<void> {
    this.#server.close()
  }

  /** Stops reading from the open connections, as RabbitMQ does under an alarm. */
  stopReading(): void {
    for (const socket of this.#sockets) socket.pause()
  }

  /** Resets all connections without `connection.close`, as when the machine dies. */
  cut(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy()
  }

  async stop(): Promise<void> {
    this.cut()
    this.#server.close()
  }

  #serve(socket: Socket): void {
    this.connections += 1
    this.#sockets.add(socket)
    this.#socket = socket
    const conversation: Conversation = { rest: Buffer.alloc(0), tags: new Map(), publish: null }
    socket.on('error', () => {})
    socket.on('close', () => this.#sockets.delete(socket))
    socket.once('data', (header) => {
      conversation.rest = header.subarray(8)
      this.send(0, 'ConnectionStart', {
        versionMajor: 0,
        versionMinor: 9,
        serverProperties: { version: '3.10.8', product: 'fake' },
      })
      socket.on('data', (chunk) => {
        conversation.rest = Buffer.concat([conversation.rest, chunk])
        this.#read(conversation)
      })
    })
  }

  #read(conversation: Conversation): void {
    const { taken, rest } = takeFrames(conversation.rest)
    conversation.rest = rest
    for (const frame of taken) {
      if (frame.id === idOf('BasicPublish')) this.#onPublish(conversation, frame)
      else if (frame.id === idOf('BasicProperties')) this.#onProperties(conversation, frame)
      else {
        if (frame.id === idOf('ChannelOpen')) conversation.tags.delete(frame.channel)
        this.#answer(frame)
      }
    }
  }

  #onPublish(conversation: Conversation, { channel, fields }: Frame): void {
    const tag = (conversation.tags.get(channel) ?? 0) + 1
    conversation.tags.set(channel, tag)
    const exchange = String(fields?.['exchange'])
    const routingKey = String(fields?.['routingKey'])
    const mandatory = fields?.['mandatory'] === true
    conversation.publish = { channel, tag, exchange, routingKey, mandatory }
  }

  #onProperties(conversation: Conversation, { fields }: Frame): void {
    if (!conversation.publish) return
    const headers = { ...(fields?.['headers'] as object | undefined) }
    const messageId = String(fields?.['messageId'])
    const published = { ...conversation.publish, messageId, headers }
    conversation.publish = null
    this.published.push(published)
    this.emit('publish', published)
  }

  #answer(frame: Frame): void {
    const answers: Record<string, [method: string, fields: object]> = {
      ConnectionStartOk: ['ConnectionTune', { channelMax: 100, frameMax: 131_072, heartbeat: 0 }],
      ConnectionOpen: ['ConnectionOpenOk', {}],
      ConnectionClose: ['ConnectionCloseOk', {}],
      ChannelOpen: ['ChannelOpenOk', {}],
      ChannelClose: ['ChannelCloseOk', {}],
      ConfirmSelect: ['ConfirmSelectOk', {}],
      ExchangeDeclare: ['ExchangeDeclareOk', {}],
      BasicCancel: ['BasicCancelOk', { consumerTag: '' }],
      ...Object.fromEntries(this.refusals),
    }
    for (const method of [...Object.keys(answers), 'ConnectionTuneOk']) {
      if (frame.id !== idOf(method)) continue
      this.received.set(method, frame.fields ?? {})
      this.emit(method)
      const answer = this.unanswered.has(method) ? undefined : answers[method]
      // Methods that concern the whole connection are sent on channel 0.
      const isOfConnection = answer?.[0].startsWith('Connection') === true
      if (answer?.[0] === 'ConnectionOpenOk' && this.closedAtOnce > 0) this.#openAndClose()
      else if (answer) this.send(isOfConnection ? 0 : frame.channel, ...answer)
    }
  }

  #openAndClose(): void {
    this.closedAtOnce -= 1
    const fields = { replyCode: this.closeCode, replyText: 'CLOSED', classId: 0, methodId: 0 }
    this.inOnePacket(() => {
      this.send(0, 'ConnectionOpenOk', {})
      // amqplib does not expect the close of a channel that does not exist, and closes the connection.
      if (this.closeCode === 404) this.send(1, 'ChannelClose', fields)
      else this.send(0, 'ConnectionClose', fields)
    })
    if (this.resetsAtOnce) this.#socket?.resetAndDestroy()
  }
}

function idOf(method: string): number {
  const id = defs[method]
  if (id === undefined) throw new Error(`no AMQP method ${method}`)
  return id
}
