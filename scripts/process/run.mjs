import { spawn } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'

/**
 * Runs a command to its end and collects its output. Does not reject for an exit code; a command that cannot
 * be started yields code 127, as in a shell. Asynchronous, because a synchronous spawn would stop the
 * progress lines. `input` is written to its standard input, which is empty without it.
 * @param {string} command
 * @param {readonly string[]} args
 * @param {import('node:child_process').SpawnOptions & { input?: string }} [options]
 * @returns {Promise<{ code: number, signal: NodeJS.Signals | null, output: string }>}
 */
export function run(command, args, { input, ...options } = {}) {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
      ...options,
    })
    let output = ''
    /** @param {string | Buffer} chunk */
    const collect = (chunk) => {
      output += chunk
    }
    child.stdout?.on('data', collect)
    child.stderr?.on('data', collect)
    // A command that ends before it has read its input has said why in its output.
    child.stdin?.on('error', () => {})
    child.stdin?.end(input)
    child.on('error', (error) =>
      resolve({ code: 127, signal: null, output: `${output}${error.message}` }),
    )
    // A killed command may leave children that hold its output open. They are not waited for.
    child.on(
      'exit',
      (_code, signal) => signal && child.stdout?.destroy() && child.stderr?.destroy(),
    )
    child.on('close', (code, signal) => resolve({ code: code ?? 1, signal, output }))
  })
}

/**
 * Returns the first executable of that name on the PATH or in `more`; undefined if there is none.
 * @param {string} name
 * @param {readonly string[]} more
 */
export function findExecutable(name, more = []) {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), ...more]
  return folders.map((folder) => join(folder, name)).find(isExecutable)
}

/** @param {string} file */
export function isExecutable(file) {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/**
 * The last lines of an output, for an error message.
 * @param {string} output
 */
export function tail(output, lines = 15) {
  return output.trimEnd().split('\n').slice(-lines).join('\n')
}
