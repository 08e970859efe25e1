/** Which rows are selected: kept with the entry of the browser's history, so that who comes back finds them so. */
import { useRouter } from '@tanstack/react-router'
import { type Dispatch, type SetStateAction, useEffect, useState } from 'react'

type Ids = ReadonlySet<string>

/** Entries of the history: those that were changed last. */
const MOST_KEPT = 20

const kept = new Map<string, Ids>()

export function useSelection(): [Ids, Dispatch<SetStateAction<Ids>>] {
  const { history } = useRouter()
  // The one that the list was opened with: it is still shown while the next page loads.
  const [entry] = useState(() => history.location.state.__TSR_key ?? '')
  const [selected, setSelected] = useState(() => kept.get(entry) ?? new Set<string>())
  useEffect(() => keep(entry, selected), [entry, selected])
  return [selected, setSelected]
}

function keep(entry: string, ids: Ids): void {
  kept.delete(entry)
  if (ids.size > 0) kept.set(entry, ids)
  const [oldest = ''] = kept.keys()
  if (kept.size > MOST_KEPT) kept.delete(oldest)
}
