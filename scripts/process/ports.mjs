import { connect, createServer } from 'node:net'
import { codeOf } from './errors.mjs'
import { Refusal } from './progress.mjs'

// Below Linux's ephemeral range (32768…) on purpose. While its broker is down, a client keeps connecting to
// the broker's port. If that port were in the ephemeral range, the client could be given it as its own source
// port: it would then be connected to itself, and the restarted broker would find its port taken.
const LOWEST = 12_000
const COUNT = 20_000

/** @typedef {(socket: import('node:net').Socket, answer: (result: boolean) => void) => void} Watch */

/**
 * Returns a port on 127.0.0.1 that nobody listens on, and that no living process got from here: it may take
 * seconds until somebody listens.
 * @returns {Promise<number>}
 */
export async function freePort() {
  for (let attempt = 0; attempt < 200; attempt++) {
    const port = LOWEST + Math.floor(Math.random() * COUNT)
    // In this order: to look whether a port is free binds it, and another process may be about to.
    if ((await reserve(port)) && (await isPortFree(port))) return port
  }
  throw new Error(`no free port between ${LOWEST} and ${LOWEST + COUNT}`)
}

/**
 * Whether the port is now reserved for this process, until it ends. The reservation is a socket whose name is
 * no file, so a process that is killed leaves nothing. Only Linux has those; elsewhere nothing is reserved.
 * @param {number} port
 * @returns {Promise<boolean>}
 */
function reserve(port) {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', (error) => resolve(codeOf(error) !== 'EADDRINUSE'))
    server.listen(`\0ojs-rabbitmq-port-${port}`, () => {
      server.unref()
      resolve(true)
    })
  })
}

/**
 * The first free port of `first`, `first + 1`, …
 * @param {number} first
 */
export async function nextFreePort(first, host = '127.0.0.1') {
  for (let port = first; port < first + 100; port++) {
    if (await isPortFree(port, host)) return port
  }
  throw new Error(`no free port between ${first} and ${first + 99}`)
}

/**
 * Whether a server could listen there now. Rejects if none ever could: unknown host, port below 1024.
 * @param {number} port
 * @returns {Promise<boolean>}
 */
export function isPortFree(port, host = '127.0.0.1') {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', (error) => {
      if (codeOf(error) === 'EADDRINUSE') resolve(false)
      else reject(new Refusal(`${host}:${port} cannot be listened on: ${error.message}`))
    })
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(true)))
  })
}

/**
 * Whether a server accepts connections there. Unlike `isPortFree` this never binds the port, which could take
 * it from a server that is about to listen.
 * @param {number} port
 */
export function takesConnections(port) {
  return dial(port, (socket, answer) => {
    socket.once('connect', () => answer(true))
  })
}

/**
 * True if a server on that port starts an AMQP 0-9-1 connection, i.e. has booted.
 * @param {number} port
 * @param {{ timeoutMs?: number }} [options]
 */
export function speaksAmqp(port, { timeoutMs } = {}) {
  /** @type {Watch} */
  const watch = (socket, answer) => {
    socket.once('connect', () => socket.write(Buffer.from([65, 77, 81, 80, 0, 0, 9, 1])))
    // Connection.Start is a method frame (type 1). After a version mismatch the server answers "AMQP…"
    // instead.
    socket.once('data', (data) => answer(data[0] === 1))
  }
  return dial(port, watch, timeoutMs)
}

/**
 * Resolves to what `watch` answers; false when the connection ends first or the time is up.
 * @param {number} port
 * @param {Watch} watch
 * @returns {Promise<boolean>}
 */
function dial(port, watch, timeoutMs = 2000) {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' })
    /** @param {boolean} result */
    const answer = (result) => {
      socket.destroy()
      resolve(result)
    }
    socket.setTimeout(timeoutMs, () => answer(false))
    socket.once('error', () => answer(false))
    socket.once('close', () => answer(false))
    watch(socket, answer)
  })
}
