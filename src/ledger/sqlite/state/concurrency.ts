/** What a commit has done to jobs with a concurrency key, for its listener. */
import type { JobRow } from '../../../job/job.ts'
import type { KeyNews } from '../../concurrency.ts'
import { NotedState } from '../commit/committed-state.ts'
import type { Statements } from '../sql/statements.ts'

type Note = { held: string } | { released: JobRow }

export class KeyedJobs extends NotedState<Note> {
  /**
   * May there be jobs with a key, so that a write may change other rows than its own? Then it must be protected: see
   * `Protect`.
   */
  mayExist: boolean
  #listener: (news: KeyNews) => void = () => {}

  constructor(statements: Pick<Statements, 'hasKeyed'>) {
    super()
    this.mayExist = statements.hasKeyed.get() !== undefined
  }

  /** Inside a write: a job of the queue is held back. */
  held(queue: string): void {
    this.notes.add({ held: queue })
  }

  /** Inside a write: the job owes its message from now on, and the write does not return it. */
  released(job: JobRow): void {
    this.notes.add({ released: job })
  }

  listen(listener: (news: KeyNews) => void): void {
    this.#listener = listener
  }

  /** The listener is told last: it may begin a write. */
  override commit(): void {
    if (this.notes.isEmpty) return
    const all = this.notes.all
    super.commit()
    this.#listener({
      held: all.flatMap((note) => ('held' in note ? note.held : [])),
      released: all.flatMap((note) => ('released' in note ? note.released : [])),
    })
  }

  protected override apply(): void {}
}
