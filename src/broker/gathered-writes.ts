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
