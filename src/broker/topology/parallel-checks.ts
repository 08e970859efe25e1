/** How many entities are checked at a time after a (re)connect; each takes one channel. */
const CONCURRENCY = 8

/** Resolves when `check` has resolved for every item. Rejects with the first rejection; the others go on. */
export async function checkEach<T>(
  items: Iterable<T>,
  check: (item: T) => Promise<void>,
): Promise<void> {
  const left = [...items]
  const workers = Array.from({ length: CONCURRENCY }, async () => {
    for (let item = left.pop(); item !== undefined; item = left.pop()) await check(item)
  })
  await Promise.all(workers)
}
