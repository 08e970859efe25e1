/** Rejects as `work` does, unless that takes longer than `ms`. */
export function isInTime(work: Promise<unknown>, ms: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(false), ms).unref()
    work.then(() => resolve(true), reject).finally(() => clearTimeout(timer))
  })
}
