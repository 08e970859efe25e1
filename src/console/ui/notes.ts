/** Short notes of what has just been done; they go by themselves. */
import { useSyncExternalStore } from 'react'

const SHOWN_MS = 6_000

export interface Note {
  id: number
  text: string
}

let notes: readonly Note[] = []
let last = 0
const listeners = new Set<() => void>()

function change(next: readonly Note[]): void {
  notes = next
  for (const listener of listeners) listener()
}

export function tell(text: string): void {
  const id = ++last
  change([...notes.slice(-2), { id, text }])
  setTimeout(() => change(notes.filter((note) => note.id !== id)), SHOWN_MS)
}

export function useNotes(): readonly Note[] {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => notes,
  )
}
