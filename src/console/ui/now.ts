/** The time, once a second, for everything on the page that says how long ago something was. */
import { useSyncExternalStore } from 'react'

const listeners = new Set<() => void>()
let now = Date.now()
let timer: ReturnType<typeof setInterval> | undefined

function subscribe(listener: () => void): () => void {
  // It stood still while nothing on the page asked for it.
  if (timer === undefined) now = Date.now()
  listeners.add(listener)
  timer ??= setInterval(tick, 1_000)
  return () => {
    listeners.delete(listener)
    if (listeners.size > 0) return
    clearInterval(timer)
    timer = undefined
  }
}

function tick(): void {
  now = Date.now()
  for (const listener of listeners) listener()
}

export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now)
}
