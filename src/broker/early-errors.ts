import type { EventEmitter } from 'node:events'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

type Opened = (error: unknown, ok?: unknown) => void
interface AmqpConnection extends EventEmitter {
  open(fields: object, opened: Opened): void
}

let isDone = false

/**
 * amqplib reads on before it says that a connection is open: an error in that very read, such as RabbitMQ's
 * `connection.close` with 541 right behind its `open-ok`, finds nobody listening and ends the process. With
 * this it is told one turn later, when whoever has opened the connection listens.
 *
 * Once and for all connections, as amqplib shows none before it is open. Where it has changed, nothing is done.
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
      // Until then: a reset behind that packet is told before who has waited for the opening goes on.
      setImmediate(() => {
        this.off('error', hear)
        if (early.length > 0) this.emit('error', early[0])
      })
      opened(...answer)
    })
  }
}

/** It is no export of the package. */
function connectionPrototype(): AmqpConnection | null {
  try {
    const require = createRequire(import.meta.url)
    const found = require(join(dirname(require.resolve('amqplib')), 'lib', 'connection.js'))
    return found.Connection.prototype as AmqpConnection
  } catch {
    return null
  }
}
