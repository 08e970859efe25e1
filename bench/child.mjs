import { fork } from 'node:child_process'
import { guard, unguard } from '../scripts/process/processes.mjs'
import { reportOf } from '../scripts/process/progress.mjs'

/** @typedef {{ id: number, result?: unknown, error?: string }} Answer */

/**
 * Starts a load process. It lives for all rounds, so that its code is as warm as the server's. `call` runs
 * one of its commands and resolves to the result.
 * @param {URL} file
 * @param {readonly string[]} nodeArgs
 * @param {string} execPath another Node.js
 */
export function startChild(file, nodeArgs = [], execPath = process.execPath) {
  const child = fork(file, {
    execPath,
    execArgv: [...nodeArgs],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  const { pid } = child
  if (pid === undefined) throw new Error(`${file.pathname} could not be started`)
  guard(pid)
  /** @type {Map<number, { resolve: (result: unknown) => void, reject: (error: Error) => void }>} */
  const waiting = new Map()
  let lastId = 0
  child.on('message', (message) => {
    const { id, result, error } = /** @type {Answer} */ (message)
    const caller = waiting.get(id)
    waiting.delete(id)
    if (error === undefined) caller?.resolve(result)
    else caller?.reject(new Error(error))
  })
  const exited = new Promise((resolve) => child.once('exit', resolve)).then(() => {
    unguard(pid)
    for (const { reject } of waiting.values()) reject(new Error(`${file.pathname} ended early`))
  })
  return {
    pid,
    /** @type {(command: string, parameters?: object) => Promise<any>} */
    call: (command, parameters) =>
      new Promise((resolve, reject) => {
        lastId += 1
        waiting.set(lastId, { resolve, reject })
        child.send({ id: lastId, command, parameters })
      }),
    stop: () => {
      // A killed process writes no profile.
      if (nodeArgs.length > 0 && child.connected) child.disconnect()
      else child.kill('SIGKILL')
      return exited
    },
  }
}

/**
 * The counterpart of `startChild`, in the load process: runs the commands.
 * @param {Record<string, (parameters: any) => unknown>} commands
 */
export function serve(commands) {
  process.on('message', async ({ id, command, parameters }) => {
    try {
      process.send?.({ id, result: await commands[command]?.(parameters) })
    } catch (error) {
      process.send?.({ id, error: reportOf(error) })
    }
  })
  // Ctrl-C reaches every process of the terminal, but only the parent decides when a round is over.
  process.on('SIGINT', () => {})
  process.on('disconnect', () => process.exit())
}
