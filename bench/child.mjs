import { fork } from 'node:child_process'
import { guard, unguard } from '../scripts/process/processes.mjs'

/**
 * Starts a load process. It lives for all rounds, so that its code is as warm as the server's. `call` runs
 * one of its commands and resolves to the result.
 */
export function startChild(file, nodeArgs = []) {
  const child = fork(file, { execArgv: nodeArgs, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  guard(child.pid)
  const waiting = new Map()
  let lastId = 0
  child.on('message', ({ id, result, error }) => {
    const { resolve, reject } = waiting.get(id)
    waiting.delete(id)
    if (error === undefined) resolve(result)
    else reject(new Error(error))
  })
  const exited = new Promise((resolve) => child.once('exit', resolve)).then(() => {
    unguard(child.pid)
    for (const { reject } of waiting.values()) reject(new Error(`${file.pathname} ended early`))
  })
  return {
    pid: child.pid,
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

/** The counterpart of `startChild`, in the load process: runs the commands. */
export function serve(commands) {
  process.on('message', async ({ id, command, parameters }) => {
    try {
      process.send({ id, result: await commands[command](parameters) })
    } catch (error) {
      process.send({ id, error: error.stack })
    }
  })
  // Ctrl-C reaches every process of the terminal, but only the parent decides when a round is over.
  process.on('SIGINT', () => {})
  process.on('disconnect', () => process.exit())
}
