/** Jobs on which an operator acts, one after another in one write. */
import { isErased, type JobRow, type JobState } from '../../job/job.ts'
import type { Acted, ActTerms, Refused } from '../bulk.ts'
import { TakenBack } from './taken-back.ts'

/** Characters of the rows that one write returns: all of them are in memory at once. */
const MAX_TEXT = 16 * 1024 * 1024

/** Acts on the first of the jobs, until the time is up. */
export function actOnSome(
  ids: readonly string[],
  { maxMs }: Pick<ActTerms, 'maxMs'>,
  act: (id: string) => Acted,
): Acted[] {
  const until = performance.now() + maxMs
  const acted: Acted[] = []
  let text = 0
  for (const id of ids) {
    const one = act(id)
    acted.push(one)
    text += textOf(one)
    if (performance.now() >= until || text >= MAX_TEXT) break
  }
  return acted
}

/** Acts on all of the jobs, or takes everything back and resolves with those that were refused. */
export function actOnAll(ids: readonly string[], act: (id: string) => Acted): Acted[] {
  const acted = ids.map(act)
  const refused = acted.filter(({ did }) => did === null)
  if (refused.length > 0) throw new TakenBack(refused)
  return acted
}

export function refused(
  id: string,
  reason: Refused['reason'],
  row: Pick<JobRow, 'state'> | null,
): Refused {
  const isKnown = row !== null && reason !== 'not_found' && !isErased(row.state)
  return { did: null, id, reason, state: isKnown ? (row.state as JobState) : null }
}

function textOf(acted: Acted): number {
  if (acted.did === null) return 0
  const { envelope, errors } = acted.did === 'delete' ? acted.before : acted.job
  return envelope.length + (errors?.length ?? 0)
}
