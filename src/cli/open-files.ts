import { readFileSync } from 'node:fs'

/** The start has some 150 open at once: with fewer, Node.js says of some package that it cannot be found. */
const LEAST = 256

/** Why the gateway cannot start; null: it can, or nobody knows (not Linux). */
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
