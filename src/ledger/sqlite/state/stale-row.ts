/** Why a fence did not match: the row as it is inside the write. */
import type { Stale } from '../../../job/stale.ts'
import { toStanding } from '../sql/rows.ts'
import type { Store } from './store.ts'

/** Inside a write. */
export function staleOf({ statements }: Store, id: string): Stale {
  return { outcome: 'stale', row: toStanding(statements.standing.get(id)) }
}
