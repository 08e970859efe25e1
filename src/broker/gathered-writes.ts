import type { Writable } from 'node:stream'

/**
 * What is written to `stream` in one turn of the event loop goes out in one system call at the end
 * of that turn, in the same order. amqplib writes every frame by itself, acknowledgements of 21
 * bytes included: each would cost a call here, and RabbitMQ a read.
 */
export function gatherWrites(stream: Writable): void {
  const write = stream.write
  let isGathering = false
  const flush = () => {
    isGathering = false
    stream.uncork()
  }
  const gathered = (...written: Parameters<typeof write>): boolean => {
    if (!isGathering) {
      isGathering = true
      stream.cork()
      // Before any I/O of the next turn: nothing waits that could go.
      process.nextTick(flush)
    }
    return write.apply(stream, written)
  }
  stream.write = gathered as typeof write
}

/** Of amqplib: it moves the frames of all channels to the socket. */
interface Muxer {
  _readIncoming(): void
  _scheduleRead(): void
}

/**
 * Frames go out when the callback that wrote them is over. amqplib lets them wait for the end of
 * the turn of the event loop, which may bring a request of every client there is; RabbitMQ would
 * have nothing to do until then. Private members of amqplib: false where they are missing, and then
 * everything is as before, but slower.
 */
export function writePromptly(connection: object): boolean {
  const { muxer } = connection as { muxer?: Partial<Muxer> }
  if (muxer?._readIncoming === undefined || muxer._scheduleRead === undefined) return false
  let isDue = false
  muxer._scheduleRead = () => {
    if (isDue) return
    isDue = true
    process.nextTick(() => {
      isDue = false
      muxer._readIncoming?.()
    })
  }
  return true
}
