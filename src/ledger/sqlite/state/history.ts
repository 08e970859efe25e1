/** Reads and forgets what is recorded of a job. */
import { clearedHistory, readHistory } from '../../../job/history/changes.ts'
import { isErased } from '../../../job/job.ts'
import type { HistoryLedger, JobHistory } from '../../history.ts'
import type { HistoryReads } from '../../reads.ts'
import type { Access } from '../commit/access.ts'
import { toJobRow } from '../sql/rows.ts'
import type { Store } from './store.ts'

/** See `HistoryLedger`. */
export class SqliteHistory implements HistoryLedger, HistoryReads {
  readonly #store: Store
  readonly #access: Access

  constructor(store: Store, access: Access) {
    this.#store = store
    this.#access = access
  }

  find(id: string): Promise<JobHistory | null> {
    return this.#access.ask(() => {
      const found = this.#read(id)
      return found && withoutText(found)
    })
  }

  clear(id: string): Promise<JobHistory | null> {
    return this.#access.write(() => {
      const known = this.#read(id)
      if (known === null) return null
      this.#store.statements.setHistory.run(id, clearedHistory(known.text))
      return withoutText(known)
    })
  }

  #read(id: string): (JobHistory & { text: string }) | null {
    const { find, history } = this.#store.statements
    const job = toJobRow(find.get(id))
    if (job === null || isErased(job.state)) return null
    const text = history.get(id)?.history ?? ''
    return { job, text, ...readHistory(text) }
  }
}

function withoutText({ job, changes, isFolded }: JobHistory): JobHistory {
  return { job, changes, isFolded }
}
