import type { Channel } from 'amqplib'
import { onTestFinished, vi } from 'vitest'
import { Connection } from '../../src/broker/connection/connection.ts'

const OPERATIONS = [
  'checkQueue',
  'checkExchange',
  'assertQueue',
  'assertExchange',
  'bindQueue',
  'consume',
] as const

/** An operation and the entity's name, such as `checkQueue ojs.queue.email`. */
type Question = `${(typeof OPERATIONS)[number]} ${string}`

type Call = (name: string, ...rest: unknown[]) => Promise<unknown>

/** Sends the question at once, later or on a channel that is closed by then. */
type Gate = (send: () => Promise<unknown>, channel: Channel) => Promise<unknown>

interface Held {
  /** The channel of the question. */
  channel: Channel
  goOn(): void
}

/**
 * Real channels of the gateway, on which the test holds questions back to get interleavings that a real
 * RabbitMQ produces only by chance. Every answer is RabbitMQ's or amqplib's own.
 */
export class HeldChannels {
  /** All questions, in the order in which they were asked. */
  readonly asked: string[] = []
  readonly #gates = new Map<string, Gate>()
  readonly #channels = new Map<string, Channel>()

  /** Replaces the channels of every connection of the gateway until the test ends. */
  constructor() {
    const open = Connection.prototype.openChannel
    const held = (channel: Channel) => this.#hold(channel)
    const spy = vi.spyOn(Connection.prototype, 'openChannel')
    spy.mockImplementation(async function (this: Connection) {
      return held(await open.call(this))
    })
    onTestFinished(() => spy.mockRestore())
  }

  /** Holds the next such question back before it is sent; resolves when it is held. */
  unsent(question: Question): Promise<Held> {
    return this.#holdAt(question, async (send, untilLetGo) => {
      await untilLetGo()
      return send()
    })
  }

  /** Holds back RabbitMQ's answer to the next such question; resolves when the answer is there. */
  answered(question: Question): Promise<Held> {
    return this.#holdAt(question, async (send, untilLetGo) => {
      const [answer] = await Promise.allSettled([send()])
      await untilLetGo()
      if (answer.status === 'rejected') throw answer.reason
      return answer.value
    })
  }

  /** Makes these questions fail from now on: their channel is closed before they are sent. */
  breakOff(...questions: Question[]): void {
    for (const question of questions) {
      this.#gates.set(question, async (send, channel) => {
        await channel.close()
        return send()
      })
    }
  }

  release(): void {
    this.#gates.clear()
  }

  times(question: Question): number {
    return this.asked.filter((each) => each === question).length
  }

  /** The channel on which the question was asked last. */
  channelOf(question: Question): Channel {
    const channel = this.#channels.get(question)
    if (!channel) throw new Error(`nobody has asked: ${question}`)
    return channel
  }

  #holdAt(
    question: Question,
    pass: (send: () => Promise<unknown>, untilLetGo: () => Promise<void>) => Promise<unknown>,
  ): Promise<Held> {
    return new Promise((isHeld) => {
      this.#gates.set(question, (send, channel) => {
        this.#gates.delete(question)
        return pass(send, () => new Promise((goOn) => isHeld({ channel, goOn })))
      })
    })
  }

  #hold(channel: Channel): Channel {
    const calls = channel as unknown as Record<string, Call>
    for (const operation of OPERATIONS) {
      const call = calls[operation]?.bind(channel)
      if (!call) throw new Error(`amqplib has no ${operation}`)
      calls[operation] = (name, ...rest) => {
        const question = `${operation} ${name}`
        this.asked.push(question)
        this.#channels.set(question, channel)
        const send = () => call(name, ...rest)
        const gate = this.#gates.get(question)
        return gate ? gate(send, channel) : send()
      }
    }
    return channel
  }
}
