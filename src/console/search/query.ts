/** From the text of the search box to the filters of `GET /ojs/v1/admin/jobs`. */

/** What may stand before the colon, and the filter that it is. `meta.KEY` comes on top. */
export const KEYS: Readonly<Record<string, string>> = {
  state: 'state',
  queue: 'queue',
  type: 'type',
  error: 'error_code',
  'error-type': 'error_type',
  'error-pattern': 'error_pattern',
  tag: 'tag',
  worker: 'worker_id',
  workflow: 'workflow_id',
  cron: 'cron',
  priority: 'priority',
  held: 'held',
  id: 'id',
  args: 'args',
  since: 'since',
  until: 'until',
}

/** Texts may be lists with commas; of a list, each value is taken as it is. */
export type Filters = Readonly<Record<string, string | readonly string[]>>

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
/** `key:"two words"`, `key:value`, `age>1h`, or a word. */
const TERM = /([\w.-]+)(:|[<>])("(?:[^"\\]|\\.)*"|\S*)|(\S+)/g

export interface Query {
  filters: Filters
  /** The words that mean nothing here, among them a key without a value: without them the rest finds more. */
  unknown: readonly string[]
}

/** A word alone is an id, or the beginning of a type. The same key twice: the gateway takes lists of most. */
export function filtersOf(text: string): Query {
  const filters: Record<string, string | readonly string[]> = {}
  const lists = new Map<string, string[]>()
  const unknown: string[] = []
  for (const [term = '', key = '', sign = '', value = '', word = ''] of text.matchAll(TERM)) {
    const plain = unquoted(value)
    const found = word === '' ? named(key, sign, plain) : bare(word)
    const [filter, what] = found ?? NOTHING
    const isList = LISTS.has(filter) && plain === value
    const values = (isList ? what.split(',').map((each) => each.trim()) : [what]).filter(
      (each) => each !== '',
    )
    if (values.length === 0) unknown.push(term)
    else if (LISTS.has(filter)) lists.set(filter, [...(lists.get(filter) ?? []), ...values])
    else filters[filter] = what
  }
  for (const [filter, values] of lists) {
    const isPlain = values.every((each) => !each.includes(',') && each === each.trim())
    filters[filter] = isPlain ? values.join() : values
  }
  return { filters, unknown }
}

type Found = readonly [filter: string, value: string]

const NOTHING: Found = ['', '']

const LISTS: ReadonlySet<string> = new Set(['state', 'queue', 'type', 'id', 'tag'])

function named(key: string, sign: string, value: string): Found | undefined {
  // `age>1h`: created before that, so that it is older.
  if (key === 'age' && sign !== ':') return [sign === '>' ? 'until' : 'since', value]
  if (sign !== ':') return undefined
  if (key.startsWith('meta.') && key.length > 5) return [key, value]
  const filter = KEYS[key]
  return filter === undefined ? undefined : [filter, value]
}

function bare(word: string): Found | undefined {
  if (UUID.test(word)) return ['id', word.toLowerCase()]
  return /^[\w.*-]+$/.test(word) ? ['type', word.endsWith('*') ? word : `${word}*`] : undefined
}

function unquoted(value: string): string {
  if (!value.startsWith('"') || !value.endsWith('"') || value.length < 2) return value
  return value.slice(1, -1).replace(/\\(.)/g, '$1')
}

/** A term for the text of a search, quoted where it must be. */
export function term(key: string, value: string): string {
  return /[\s",]/.test(value) ? `${key}:"${value.replace(/["\\]/g, '\\$&')}"` : `${key}:${value}`
}
