/** A group's statements: what loads its rows, what stores its changes, and what its commit means. */
import type { KeptRow } from '../../../job/transitions/row.ts'
import type { KeyNews } from '../../concurrency.ts'
import type { Answer, Statement } from '../connection.ts'
import { withoutNul } from '../nul.ts'
import type { KeyNote } from './changes.ts'
import * as columns from './columns.ts'
import { endRuns } from './cron.ts'
import { type Draft, keyOf, type Loaded, type Wants } from './draft.ts'
import { errorKeyOf } from './error-codes.ts'
import type { Counted, Tombstone } from './memory.ts'
import { readSide, sidesTogether, storeSide, withSides } from './side.ts'
import { inStatements } from './sizes.ts'
import { holdersOf, keptKeysOf, readHolders, readKeptKeys, widest } from './unique-keys.ts'

export const NOTHING: Loaded = {
  rows: new Map(),
  texts: new Map(),
  nonces: new Map(),
  tombstones: new Map(),
  holders: new Map(),
  keptKeys: new Map(),
  sides: new Map(),
  answers: new Map(),
}

/** Several wants as one. */
export function together(all: readonly Wants[]): Required<Wants> {
  const asked = all.flatMap((wants) => wants.asked ?? [])
  return {
    ids: [...new Set(all.flatMap(({ ids = [] }) => ids))],
    short: [...new Set(all.flatMap(({ short = [] }) => short))],
    nonces: [...new Set(all.flatMap(({ nonces = [] }) => nonces))],
    tombstones: [...new Set(all.flatMap(({ tombstones = [] }) => tombstones))],
    holders: widest(all.flatMap(({ holders = [] }) => holders)),
    keptKeys: [...new Set(all.flatMap(({ keptKeys = [] }) => keptKeys))],
    sides: sidesTogether(all.flatMap(({ sides = [] }) => sides)),
    asked: [...new Map(asked.map((one) => [keyOf(one), one])).values()],
  }
}

/** What is to be asked to load `wants`: nothing where it is loaded already. */
export function toLoad(schema: string, wants: Required<Wants>, { rows }: Loaded): Statement[] {
  const ids = [...new Set([...wants.ids, ...wants.short])].filter((id) => !rows.has(id))
  const isLocking = ids.length + wants.nonces.length > 0
  return [
    ...wants.asked,
    ...(isLocking ? [columns.lockRows(schema, ids, wants.nonces)] : []),
    ...(wants.ids.length > 0 ? [columns.readTexts(schema, wants.ids)] : []),
    ...(wants.tombstones.length > 0 ? [readTombstones(schema, wants.tombstones)] : []),
    ...(wants.holders.length > 0 ? [readHolders(schema, wants.holders)] : []),
    ...(wants.keptKeys.length > 0 ? [readKeptKeys(schema, wants.keptKeys)] : []),
    ...wants.sides.map((want) => readSide(schema, want)),
  ]
}

/** What is loaded with these answers to `toLoad`. */
export function withLoaded(
  before: Loaded,
  wants: Required<Wants>,
  answers: readonly Answer[],
): Loaded {
  const left = [...answers]
  const asked = wants.asked.map((one) => [keyOf(one), left.shift()?.rows ?? []] as const)
  const wanted = [...wants.ids, ...wants.short].filter((id) => !before.rows.has(id))
  const isLocking = wanted.length + wants.nonces.length > 0
  const found = isLocking ? columns.rowsOf(left.shift() ?? NO_ROWS) : []
  const texts = wants.ids.length > 0 ? columns.textsOf(left.shift() ?? NO_ROWS) : []
  const next = (isAsked: boolean) => (isAsked ? (left.shift() ?? NO_ROWS) : NO_ROWS).rows
  const graves = next(wants.tombstones.length > 0)
  const holders = holdersOf(wants.holders, next(wants.holders.length > 0))
  const keptKeys = keptKeysOf(wants.keptKeys, next(wants.keptKeys.length > 0))
  return {
    rows: new Map([...wanted.map((id) => [id, null] as const), ...byId(found), ...before.rows]),
    texts: new Map([...texts, ...before.texts]),
    nonces: new Map([...before.nonces, ...owing(wants.nonces, found)]),
    tombstones: new Map([
      ...wants.tombstones.map((id) => [id, null] as const),
      ...graves.map(({ id, ...tombstone }) => [id, tombstone as Tombstone] as const),
      ...before.tombstones,
    ]),
    // Of two of the same key, the later one asked for more.
    holders: new Map([...before.holders, ...holders]),
    keptKeys: new Map([...before.keptKeys, ...keptKeys]),
    sides: withSides(
      before.sides,
      wants.sides,
      left.map(({ rows }) => rows),
    ),
    answers: new Map([...before.answers, ...asked]),
  }
}

function readTombstones(schema: string, ids: readonly string[]): Statement {
  const text = `SELECT id, queue, is_scoped AS "isScoped", cancelled_at AS "cancelledAt"
    FROM ${schema}.tombstones WHERE id = ANY($1::text[])`
  return { text, values: [withoutNul(ids)] }
}

const NO_ROWS: Answer = { command: 'SELECT', rows: [] }

function byId(rows: readonly KeptRow[]): (readonly [string, KeptRow])[] {
  return rows.map((row) => [row.id, row] as const)
}

function owing(nonces: readonly number[], rows: readonly KeptRow[]) {
  const ids = new Map(rows.map(({ outbox, id }) => [outbox, id]))
  return nonces.map((nonce) => [nonce, ids.get(nonce) ?? null] as const)
}

/** What stores the changes of the draft. */
export function toStore(schema: string, slot: number, draft: Draft): Statement[] {
  return [
    ...storeRows(schema, draft),
    ...storeTexts(schema, draft),
    ...storeCounts(schema, slot, draft),
    ...storeTombstones(schema, draft),
    ...[...draft.changes.sides].flatMap(([table, rows]) => storeSide(schema, table, rows)),
    ...storeGathered(schema, draft),
    ...draft.changes.others.flatMap(({ statement }) => statement ?? []),
    // Behind the others, which may have recorded its queue.
    ...storeStale(schema, draft),
    ...endRuns(schema, draft.changes.endedRuns),
  ]
}

function storeRows(schema: string, draft: Draft): Statement[] {
  const all = [...draft.changes.rows]
  const rows = all.flatMap(([, row]) => (row ? stored(draft, row) : []))
  const added = rows.filter(({ id }) => draft.isNew(id))
  const changed = rows
    .flatMap((row): columns.ChangedRow[] => {
      const before = draft.before(row.id)
      return before === null ? [] : [[before, row]]
    })
    .filter(columns.isChanged)
  const gone = all.filter(([id, row]) => row === null && !draft.isNew(id)).map(([id]) => id)
  return [
    ...(added.length > 0 ? [columns.insertRows(schema, added)] : []),
    ...(changed.length > 0 ? [columns.updateRows(schema, changed)] : []),
    ...(gone.length > 0 ? columns.deleteRows(schema, gone) : []),
  ]
}

function stored({ changes }: Draft, row: KeptRow): columns.StoredRow {
  const texts = changes.texts.get(row.id)
  return texts === undefined ? row : { ...row, errorCode: errorKeyOf(texts.error) }
}

function storeTexts(schema: string, draft: Draft): Statement[] {
  const { texts, rows } = draft.changes
  const kept = [...texts].filter(([id]) => rows.get(id) !== null)
  const added = kept.filter(([id]) => draft.isNew(id))
  const changed = kept.filter(([id]) => !draft.isNew(id))
  return [
    ...inStatements(added, columns.lengthOf).map((some) => columns.insertTexts(schema, some)),
    ...inStatements(changed, columns.lengthOf).map((some) => columns.updateTexts(schema, some)),
  ]
}

function storeCounts(schema: string, slot: number, draft: Draft): Statement[] {
  const empty = emptied(draft)
  const moved = [...draft.changes.counts].flatMap(([queue, states]) =>
    empty.includes(queue)
      ? []
      : [...states].flatMap(([state, change]) => (change === 0 ? [] : [{ queue, state, change }])),
  )
  return [
    ...(moved.length > 0 ? [moveCounts(schema, slot, moved)] : []),
    ...(empty.length > 0 ? [forgetCounts(schema, empty)] : []),
  ]
}

/** The queues whose counts go. */
function emptied(draft: Draft): string[] {
  const isEmpty = (queue: string) => Object.values(draft.countsOf(queue)).every((n) => n === 0)
  return [...draft.changes.uncounted].filter(isEmpty)
}

/** Of all slots: together they are 0. */
function forgetCounts(schema: string, queues: readonly string[]): Statement {
  const text = `DELETE FROM ${schema}.state_counts WHERE queue = ANY($1::text[])`
  return { text, values: [queues] }
}

function moveCounts(
  schema: string,
  slot: number,
  moved: readonly { queue: string; state: Counted; change: number }[],
): Statement {
  const text = `INSERT INTO ${schema}.state_counts AS old (slot, queue, state, count)
    SELECT $1, n.* FROM unnest($2::text[], $3::text[], $4::bigint[]) AS n
    ON CONFLICT (slot, queue, state) DO UPDATE SET count = old.count + excluded.count`
  const queues = moved.map(({ queue }) => queue)
  const states = moved.map(({ state }) => state)
  return { text, values: [slot, queues, states, moved.map(({ change }) => change)] }
}

/** The newest of them are kept. */
const MAX_TOMBSTONES = 100_000

function storeTombstones(schema: string, { changes, memory }: Draft): Statement[] {
  const table = `${schema}.tombstones`
  const all = [...changes.tombstones]
  if (all.length === 0) return []
  const ids = all.map(([id]) => id)
  const forget = { text: `DELETE FROM ${table} WHERE id = ANY($1::text[])`, values: [ids] }
  const recorded = all.flatMap(([id, tombstone]) => (tombstone ? [{ id, ...tombstone }] : []))
  const record = {
    text: `INSERT INTO ${table} (id, queue, cancelled_at, is_scoped)
      SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::boolean[])`,
    values: [
      recorded.map(({ id }) => id),
      recorded.map(({ queue }) => queue),
      recorded.map(({ cancelledAt }) => cancelledAt),
      recorded.map(({ isScoped }) => isScoped),
    ],
  }
  const surplus = memory.tombstones + recorded.length - MAX_TOMBSTONES
  if (surplus <= 0) return recorded.length === 0 ? [forget] : [forget, record]
  const text = `DELETE FROM ${table} WHERE seq IN (SELECT seq FROM ${table} ORDER BY seq LIMIT $1)`
  return [forget, record, { text, values: [surplus] }]
}

function storeGathered(schema: string, { changes }: Draft): Statement[] {
  return [...changes.gathered].flatMap(([kind, rows]) =>
    rows.length === 0 ? [] : kind.statements(schema, rows),
  )
}

/** Only what changes: a thousand stale copies cost one write. */
function storeStale(schema: string, { changes, memory }: Draft): Statement[] {
  const changed = [...changes.stale].filter(
    ([queue, mark]) => (mark !== null) !== memory.stale.has(queue),
  )
  return changed.map(([queue, mark]) => ({
    text: `UPDATE ${schema}.queues SET has_stale_copies = $2 WHERE name = $1`,
    values: [queue, mark !== null],
  }))
}

/** The changes of the draft are committed: tells the memory. */
export function committed(draft: Draft): void {
  const { changes, memory, nonce } = draft
  const empty = emptied(draft)
  memory.nonce = nonce
  for (const [queue, states] of changes.counts)
    for (const [state, change] of states) memory.add(queue, state, change)
  for (const [queue, mark] of changes.stale) {
    if (mark === null) memory.stale.delete(queue)
    else memory.stale.set(queue, mark)
  }
  for (const queue of empty) memory.counts.delete(queue)
  for (const { effect } of changes.others) effect()
  // After the effects: what this group has stored was pending before it.
  if (changes.traffic.length > 0) memory.traffic.add(changes.traffic)
  memory.tombstones = Math.min(memory.tombstones, MAX_TOMBSTONES)
  // Last: the listener may begin a write.
  if (changes.keyNews.length > 0) memory.tellKeys(newsOf(changes.keyNews))
}

function newsOf(notes: readonly KeyNote[]): KeyNews {
  return {
    held: notes.flatMap((note) => ('held' in note ? note.held : [])),
    released: notes.flatMap((note) => ('released' in note ? note.released : [])),
  }
}
