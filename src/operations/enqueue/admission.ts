/** Requests with the same id or unique key take turns until the first is confirmed or withdrawn. */
import type { OjsError } from '../../errors.ts'
import type { NewJob } from '../../job/job.ts'
import type { EnqueueTerms, Unsettled } from '../../ledger/enqueued.ts'
import type { Deps } from '../deps.ts'
import { visibleJob } from '../info.ts'
import { idTaken } from '../job-errors.ts'
import { OthersFirst } from './wait-for-conflicts.ts'

interface Enqueueing {
  jobs: readonly NewJob[]
  /** The id that the client chose for each job, by index; null: minted by the gateway, and so surely free. */
  chosenIds: readonly (string | null)[]
}

/**
 * Runs `work`, which stores and publishes `jobs`, one after another with requests that it collides with. A
 * job whose job message is not confirmed may yet be withdrawn. Until that is decided, no other request is
 * told "already exists" because of its id or unique key, and no job replaces it: a client that repeats a PUSH
 * whose answer is late would take that for the answer. So `work` returns `unsettled` when it meets such a
 * job, and runs again when that job is confirmed or withdrawn. Requests cannot deadlock: while one waits,
 * none of its own jobs is listed as unconfirmed, and chosen ids are looked up before jobs are listed.
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
  const storeUnique = () => visibly(deps, own, () => work({ request: asked.request, isUnsettled }))
  const undecidedId = () => chosenIds.find((id) => id !== null && undecided.has(id)) ?? null
  let others: OthersFirst | undefined
  for (;;) {
    let id = undecidedId()
    if (id === null && unique.length > 0 && chosenIds.some((chosen) => chosen !== null)) {
      const taken = await takenAmong(deps, chosenIds)
      // Another request may have begun with the id during the look.
      id = undecidedId()
      if (id === null && taken !== null) throw taken
    }
    const store = unique.length > 0 ? storeUnique : () => work(asked)
    const result: T | Unsettled = id === null ? await store() : { outcome: 'unsettled', id }
    if (!isWaitingForOther(result)) return result
    others ??= new OthersFirst(deps)
    await others.wait(unconfirmed.get(result.id) ?? undecided.decision(result.id))
  }
}

/**
 * Lists `ids` in `transient.unconfirmed` while `work` runs, so that other requests know that these jobs may
 * be withdrawn. The listed promise never rejects, whatever becomes of `work`.
 */
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
    // Another request has listed the same id; the ledger will refuse one of the two.
    if (deps.transient.unconfirmed.has(id)) continue
    deps.transient.unconfirmed.set(id, settled)
    mine.push(id)
  }
  return await working
}

function isWaitingForOther(result: object): result is Unsettled {
  return 'outcome' in result && result.outcome === 'unsettled'
}

/** The refusal of the first id that a job has already; null: all are free. */
async function takenAmong(deps: Deps, ids: readonly (string | null)[]): Promise<OjsError | null> {
  for (const [index, id] of ids.entries()) {
    if (id === null || (await visibleJob(deps, id)) === null) continue
    return idTaken(id, ids.length > 1 ? { index } : undefined)
  }
  return null
}
