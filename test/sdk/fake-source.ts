import { vi } from 'vitest'
import type { Job } from '../../src/sdk/job.ts'
import type { LeaseNotes } from '../../src/sdk/worker/notes.ts'
import type {
  JobError,
  JobSource,
  Lease,
  Settlement,
  SourceOptions,
  SourceSink,
} from '../../src/sdk/worker/source.ts'

let count = 0

export function newJob(over: Partial<Job> = {}): Job {
  count += 1
  return {
    id: `job-${count}`,
    type: 'test.job',
    queue: 'default',
    args: [1],
    state: 'active',
    attempt: 1,
    ...over,
  }
}

/** A lease that records how it was settled. */
export class FakeLease implements Lease {
  readonly noted: unknown[] = []
  readonly notes: LeaseNotes = {
    progress: async (note) => void this.noted.push(note),
    checkpoint: async (state) => void this.noted.push({ state }),
    lastCheckpoint: async () => this.noted.at(-1),
  }
  readonly job: Job
  readonly attempt: number
  readonly completed: unknown[] = []
  readonly failed: JobError[] = []
  releases = 0
  answer: Settlement | Promise<Settlement> = 'settled'
  begin: () => boolean | Promise<boolean> = () => true

  constructor(over: Partial<Job> = {}) {
    this.job = newJob(over)
    this.attempt = this.job.attempt
  }

  async complete(result: unknown): Promise<Settlement> {
    this.completed.push(result)
    return this.answer
  }

  async fail(error: JobError): Promise<Settlement> {
    this.failed.push(error)
    return this.answer
  }

  async release(): Promise<void> {
    this.releases += 1
  }

  get isSettled(): boolean {
    return this.completed.length + this.failed.length + this.releases > 0
  }
}

export class FakeSource implements JobSource {
  readonly name = 'fake'
  readonly calls: string[] = []
  options: SourceOptions | undefined
  startError: unknown
  #sink: SourceSink | undefined

  get sink(): SourceSink {
    if (!this.#sink) throw new Error('not started')
    return this.#sink
  }

  async start(sink: SourceSink, options: SourceOptions): Promise<void> {
    this.calls.push('start')
    this.#sink = sink
    this.options = options
    if (this.startError) throw this.startError
  }

  slotFree(): void {
    this.calls.push('slotFree')
  }

  async quiet(): Promise<void> {
    this.calls.push('quiet')
  }

  async stop(): Promise<void> {
    this.calls.push('stop')
  }
}

export function newLogger() {
  return { info: vi.fn(), warn: vi.fn(), error: vi.fn() }
}
