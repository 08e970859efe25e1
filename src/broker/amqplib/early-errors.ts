/** Delays connection errors that amqplib emits before its caller can listen. */
import type { EventEmitter } from 'node:events'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

type Opened = (error: unknown, ok?: unknown) => void
interface AmqpConnection extends EventEmitter {
  open(fields: object, opened: Opened): void
}

let isDone = false

/**
 * Delays errors that amqplib emits too early. It reads on before it reports a connection as open: an error in
 * that read, such as RabbitMQ's `connection.close` with 541 right behind its `open-ok`, finds no listener and
 * ends the process. With this patch the error comes one turn later, when the opener listens.
 *
 * Patches all connections at once, since amqplib exposes none before it is open. Does nothing if amqplib has
 * changed. Delete when amqplib emits no error before the promise of `connect` has settled.
 */
export function tellEarlyErrorsLate(): void {
  const prototype = isDone ? null : connectionPrototype()
  isDone = true
  if (prototype === null) return
  const { open } = prototype
  prototype.open = function (this: AmqpConnection, fields, opened) {
    const early: unknown[] = []
    const hear = (error: unknown) => {
      if (this.listenerCount('error') === 1) early.push(error)
    }
    this.on('error', hear)
    open.call(this, fields, (...answer) => {
      // Keep collecting until then: a reset behind that packet is emitted before the opener continues.
      setImmediate(() => {
        this.off('error', hear)
        if (early.length > 0) this.emit('error', early[0])
      })
      opened(...answer)
    })
  }
}

/** The package does not export it. */
function connectionPrototype(): AmqpConnection | null {
  try {
    const require = createRequire(import.meta.url)
    const found = require(join(dirname(require.resolve('amqplib')), 'lib', 'connection.js'))
    return found.Connection.prototype as AmqpConnection
  } catch {
    return null
  }
}
