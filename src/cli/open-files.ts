import { readFileSync } from 'node:fs'

/** The start opens some 150 files at once; with fewer allowed, Node.js reports a package as not found. */
const LEAST = 256

/** Returns why the gateway cannot start; null when it can, or when the limit is unknown (not on Linux). */
export function tooFewOpenFiles(limits = limitsOfThisProcess()): string | null {
  const [, soft] = /^Max open files +(\d+)/m.exec(limits) ?? []
  if (soft === undefined || Number(soft) >= LEAST) return null
  return `only ${soft} files may be open at a time (ulimit -n), and the gateway needs at least ${LEAST}`
}

function limitsOfThisProcess(): string {
  try {
    return readFileSync('/proc/self/limits', 'utf8')
  } catch {
    return ''
  }
}
