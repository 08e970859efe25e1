/** amqplib's frames of one turn of the event loop, in one system call. */
import type { Writable } from 'node:stream'

/**
 * Sends everything written to `stream` in one turn of the event loop in one system call at the end of that
 * turn, in the same order. amqplib writes every frame separately, even acknowledgements of 21 bytes: each
 * would cost a system call here and a read in RabbitMQ. Delete when amqplib writes the frames of a turn at once.
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
      // Runs before any I/O of the next turn, so nothing is held back longer than this turn.
      process.nextTick(flush)
    }
    return write.apply(stream, written)
  }
  stream.write = gathered as typeof write
}

/** Part of amqplib that moves the frames of all channels to the socket. */
interface Muxer {
  _readIncoming(): void
  _scheduleRead(): void
}

/**
 * Sends frames when the callback that wrote them is over. amqplib waits for the end of the event-loop turn,
 * in which every client may have a request; RabbitMQ would be idle until then. Uses private members of
 * amqplib. False when they are missing: then nothing changes, and writes stay slower. Delete when amqplib sends
 * its frames without waiting for the end of the turn.
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
