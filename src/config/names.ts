/** Whether the environment's `OJS_*` names are ours: a misspelt one is no setting. */
import type { Environment } from './readers.ts'
import { VARIABLES } from './variables.ts'

/** Read by the command `recover` only: the gateway's URL, and the API key that the command sends. */
const OTHER_NAMES = new Set([
  ...['OJS_URL', 'OJS_API_KEY', 'OJS_CLIENT_CA', 'OJS_CLIENT_CERT', 'OJS_CLIENT_KEY'],
])

/** Returns warnings. An unknown name that resembles one of ours is a mistake. */
export function checkNames(env: Environment, mistakes: string[]): string[] {
  const warnings: string[] = []
  // OJS_API_KEY holds one plain key, which has no colon; with a colon, OJS_API_KEYS was meant. Without this
  // check the gateway would start without any keys, open to all.
  if (env['OJS_API_KEY']?.includes(':')) {
    mistakes.push('OJS_API_KEY is the key of a client; did you mean OJS_API_KEYS?')
  }
  for (const name of Object.keys(env)) {
    if (!name.startsWith('OJS_') || name in VARIABLES || OTHER_NAMES.has(name)) continue
    const meant = namesMeantBy(name)
    if (meant.length === 0) warnings.push(`${name} is not a known variable; it is ignored`)
    else mistakes.push(`${name} is not known; did you mean ${meant.join(' or ')}?`)
  }
  return warnings
}

/** What Kubernetes sets in every pod for each Service, e.g. for one called `ojs` or `ojs-ledger`. */
const OF_A_SERVICE = /_(SERVICE_(HOST|PORT)|PORT(_\d+_(TCP|UDP|SCTP))?)(_[A-Z0-9_]+)?$/

/**
 * Returns the variables that an unknown `name` may stand for: misspelt, only the beginning of a name, or with
 * a suffix such as `_FILE`. Empty for the names that Kubernetes sets.
 */
function namesMeantBy(name: string): string[] {
  const known = Object.keys(VARIABLES)
  const near = known.find((candidate) => editDistance(candidate, name) <= 2)
  if (near !== undefined) return [near]
  if (OF_A_SERVICE.test(name)) return []
  const longer = known.filter((candidate) => candidate.startsWith(`${name}_`))
  return longer.length > 0 ? longer : known.filter((candidate) => name.startsWith(`${candidate}_`))
}

/** The Levenshtein distance; cheap enough, since names are short and few. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const swap = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(swap, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}
