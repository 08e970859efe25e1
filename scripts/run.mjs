import { spawn } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'

/**
 * Runs a command to its end and collects what it printed. Never rejects for an exit code; a
 * command that cannot be started answers code 127, as a shell would say. Asynchronous on purpose:
 * a synchronous spawn would silence the progress lines.
 */
export function run(command, args, { input, ...options } = {}) {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      stdio: [input ? 'pipe' : 'ignore', 'pipe', 'pipe'],
      ...options,
    })
    let output = ''
    const collect = (chunk) => {
      output += chunk
    }
    child.stdout?.on('data', collect)
    child.stderr?.on('data', collect)
    if (input) child.stdin.end(input)
    child.on('error', (error) =>
      resolve({ code: 127, signal: null, output: `${output}${error.message}` }),
    )
    // A killed command may have left children that hold its output open: nobody waits for those.
    child.on(
      'exit',
      (_code, signal) => signal && child.stdout?.destroy() && child.stderr?.destroy(),
    )
    child.on('close', (code, signal) => resolve({ code: code ?? 1, signal, output }))
  })
}

/** The first executable of that name on the PATH or in `more`, or undefined. */
export function findExecutable(name, more = []) {
  const folders = [...(process.env.PATH ?? '').split(delimiter), ...more]
  return folders.map((folder) => join(folder, name)).find(isExecutable)
}

export function isExecutable(file) {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** The last lines of an output, for an error message. */
export function tail(output, lines = 15) {
  return output.trimEnd().split('\n').slice(-lines).join('\n')
}
