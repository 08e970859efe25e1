import type { NewJob } from '../../job/job.ts'
import type { EnqueueTerms, Unsettled } from '../../ledger/enqueued.ts'
import type { Deps } from '../deps.ts'
import { idTaken } from '../job-refusals.ts'
import { visibleJob } from '../visible-job.ts'
import { OthersFirst } from './others-first.ts'

interface Enqueueing {
  jobs: readonly NewJob[]
  /** By the place of its job; those that we have minted are surely free. */
  chosenIds: readonly (string | null)[]
}

/**
 * Stores and publishes jobs. One whose own confirm is not in may yet be withdrawn: nobody is told "there
 * is one already" because of it, of its unique key or of its id, and nothing replaces it. (Who repeats
 * a PUSH whose answer is late would take that for the answer.) So `work` answers `unsettled` where it
 * met such a one, and is done again when that one is decided. It never waits while others wait for it,
 * and with the ids looked up before, no two wait for each other.
 */
export async function admitted<T extends object>(
  deps: Deps,
  { jobs, chosenIds }: Enqueueing,
  asked: Pick<EnqueueTerms, 'request'>,
  work: (terms: EnqueueTerms) => Promise<T | Unsettled>,
): Promise<T> {
  const unique = jobs.filter((job) => job.unique !== null)
  const own = new Set(unique.map((job) => job.id))
  const { unconfirmed, undecided } = deps.transient
  const isUnsettled = (id: string) => !own.has(id) && unconfirmed.has(id)
  const storeUnique = () => {
    requireFreeIds(deps, chosenIds)
    return visibly(deps, own, () => work({ request: asked.request, isUnsettled }))
  }
  let others: OthersFirst | undefined
  for (;;) {
    const id = chosenIds.find((chosen) => chosen !== null && undecided.has(chosen)) ?? null
    const store = unique.length > 0 ? storeUnique : () => work(asked)
    const done: T | Unsettled = id === null ? await store() : { outcome: 'unsettled', id }
    if (!isAboutOther(done)) return done
    others ??= new OthersFirst(deps)
    await others.wait(unconfirmed.get(done.id) ?? undecided.decision(done.id))
  }
}

/** For as long as `work` takes, others know that these may be withdrawn. Never rejects for them. */
async function visibly<T>(
  deps: Deps,
  ids: ReadonlySet<string>,
  work: () => Promise<T>,
): Promise<T> {
  const working = work()
  const mine: string[] = []
  const over = () => {
    for (const id of mine) deps.transient.unconfirmed.delete(id)
  }
  const settled = working.then(over, over)
  for (const id of ids) {
    // Of somebody else who wants the same id: one of the two will be refused.
    if (deps.transient.unconfirmed.has(id)) continue
    deps.transient.unconfirmed.set(id, settled)
    mine.push(id)
  }
  return await working
}

function isAboutOther(done: object): done is Unsettled {
  return 'outcome' in done && done.outcome === 'unsettled'
}

function requireFreeIds(deps: Deps, ids: readonly (string | null)[]): void {
  for (const [index, id] of ids.entries()) {
    if (id === null || visibleJob(deps, id) === null) continue
    throw idTaken(id, ids.length > 1 ? { index } : undefined)
  }
}
