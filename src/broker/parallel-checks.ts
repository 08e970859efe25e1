/** Entities checked at the same time after a (re)connect; each takes one channel. */
const CONCURRENCY = 8

/** Resolves when `check` has resolved for every item. A rejection ends one of the workers. */
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
