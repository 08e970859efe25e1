import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { guard, unguard } from '../../../scripts/process/processes.mjs'

const SCRIPT = fileURLToPath(new URL('./native-worker.mjs', import.meta.url))

/** A native worker process that can be killed; see native-worker.mjs. */
export class WorkerProcess {
  /** Executions that the worker has begun. */
  readonly runs: { id: string; attempt: number }[] = []
  /** Resolves when the process is gone. */
  readonly ended: Promise<void>
  readonly #child: ChildProcess

  constructor(url: string, queue: string, what: 'hang' | 'poison', env: NodeJS.ProcessEnv = {}) {
    const child = spawn(process.execPath, [SCRIPT, url, queue, what], {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    this.#child = child
    const { pid } = child
    if (pid !== undefined) guard(pid)
    this.ended = new Promise((resolve) => child.once('close', () => resolve()))
    void this.ended.then(() => {
      if (pid !== undefined) unguard(pid)
    })
    createInterface({ input: child.stdout }).on('line', (line) => {
      const said = JSON.parse(line)
      if (said.id !== undefined) this.runs.push(said)
    })
  }

  async kill9(): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.ended
  }
}
