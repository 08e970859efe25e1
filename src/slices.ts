/** Runs long work in slices, so that everything else has its turn in between. */

/** Long work pauses after this time. */
const SLICE_MS = 10

/** Pieces of long work, one in each turn of the event loop, for all gateways of the process together. */
const waiting: (() => void)[] = []

function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve)
    if (waiting.length === 1) setImmediate(runOne)
  })
}

function runOne(): void {
  waiting[0]?.()
  waiting.shift()
  if (waiting.length > 0) setImmediate(runOne)
}

/** Runs `work` up to its first pause, and what is left in slices. */
export function startNow<T>(work: Generator<void, T>): T | Promise<T> {
  const step = work.next()
  return step.done ? step.value : inSlices(work)
}

/**
 * Runs work that may take long in slices of some 10 ms, and resolves with what it returns. Everything else runs
 * between two slices, however many such works there are. `work` pauses (`yield`) at least every few
 * milliseconds.
 */
export async function inSlices<T>(work: Generator<void, T>): Promise<T> {
  for (;;) {
    await nextTurn()
    const until = performance.now() + SLICE_MS
    do {
      const step = work.next()
      if (step.done) return step.value
    } while (performance.now() < until)
  }
}
