/** False: `work` takes longer than `ms`. Rejects if `work` rejects before. Keeps no process alive. */
export function isInTime(work: Promise<unknown>, ms: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(false), ms).unref()
    work.then(() => resolve(true), reject).finally(() => clearTimeout(timer))
  })
}
