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
export function startNow<T>(work: Generator<unknown, T>, sliceMs = SLICE_MS): T | Promise<T> {
  const step = work.next()
  return step.done ? step.value : inSlices(work, step.value, sliceMs)
}

/**
 * Runs work that may take long in slices of some 10 ms, and resolves with what it returns. Everything else runs
 * between two slices, however many such works there are. `work` pauses (`yield`) at least every few
 * milliseconds; where it yields a promise, it goes on when that is fulfilled.
 */
export async function inSlices<T>(
  work: Generator<unknown, T>,
  first?: unknown,
  sliceMs = SLICE_MS,
): Promise<T> {
  for (let pause = first; ; ) {
    await (pause ?? nextTurn())
    const until = performance.now() + sliceMs
    do {
      const step = work.next()
      if (step.done) return step.value
      pause = step.value
    } while (pause === undefined && performance.now() < until)
  }
}
