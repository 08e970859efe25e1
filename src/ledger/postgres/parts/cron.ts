/** Recurring jobs: the contract's part, and reads of the entries. */
import type { CronEntry, CronStanding } from '../../../job/cron/entry.ts'
import type { CronLedger, CronRun, CronTick, DueEntry, TickChange } from '../../cron.ts'
import type { CronReads } from '../../reads.ts'
import * as shared from '../../writes/cron.ts'
import { unlessRemembered } from '../../writes/remembered.ts'
import type { Row } from '../connection.ts'
import { ENTRIES, type EntryRow, TEMPLATES, toEntry, toState } from '../group/cron.ts'
import type { Draft, Wants } from '../group/draft.ts'
import type { Groups } from '../group/groups.ts'
import type { Memory } from '../group/memory.ts'
import { selectSide, wanted } from '../group/side.ts'
import type { Reader } from '../reader.ts'
import { keysOf } from '../records/idempotency.ts'
import { DraftCronBook, liveJobs, resetEntry } from '../writes/cron.ts'
import { wantsOf } from '../writes/unique.ts'

type Book = shared.CronBook

const UNKEYED = { request: undefined, now: 0 }

/** Bytes of templates that are read at once: for a list, which the answer holds twice, or for due entries. */
const MAX_LIST_BYTES = 4 * 1024 * 1024

interface CronParts {
  groups: Groups
  schema: string
  memory: Memory
}

export function cronLedger(parts: CronParts): CronLedger {
  const writes = new CronWrites(parts)
  const { schema } = parts
  return {
    register: (definition, terms) =>
      writes.alone(definition.name, (book, draft) => {
        const { keyed = UNKEYED } = terms
        const store = () => shared.register(book, definition, terms)
        return unlessRemembered(keysOf(draft), keyed, store, shared.registeredAnswer)
      }),
    trigger: (name, at, making, keyed = UNKEYED) =>
      writes.making(name, making, {}, (book, draft) => {
        const store = () => shared.trigger(book, name, at, making)
        return unlessRemembered(keysOf(draft), keyed, store, shared.triggeredAnswer)
      }),
    remove: (name, wall) => writes.alone(name, (book) => shared.remove(book, name, wall)),
    fire: (tick, change) => {
      const live = { asked: [liveJobs(schema, tick.seq, shared.LIVE_PAGE)] }
      return writes.making(tick.name, change, live, (book) => shared.fire(book, tick, change))
    },
    reset: (tick, nextRunAt) => writes.moving(tick, (book) => resetEntry(book, tick, nextRunAt)),
    release: (tick, making) => {
      const live = { asked: [liveJobs(schema, tick.seq, 1)] }
      return writes.making(tick.name, making, live, (book) => shared.release(book, tick, making))
    },
    drop: (tick, reason) => writes.moving(tick, (book) => shared.drop(book, tick, reason)),
  }
}

class CronWrites {
  readonly #parts: CronParts

  constructor(parts: CronParts) {
    this.#parts = parts
  }

  /** Of the whole entry, in a group of its own. */
  alone<T>(name: string, run: (book: Book, draft: Draft) => T): Promise<T> {
    const sides = [wanted(ENTRIES, [name]), wanted(TEMPLATES, [name])]
    return this.#write({ sides }, run, undefined, true)
  }

  moving<T>({ name }: CronTick, run: (book: Book, draft: Draft) => T): Promise<T> {
    return this.#write({ sides: [wanted(ENTRIES, [name])] }, run)
  }

  /** May store a job. */
  making<T>(
    name: string,
    { job, now }: Pick<TickChange, 'job' | 'now'>,
    wants: Wants,
    run: (book: Book, draft: Draft) => T,
  ): Promise<T> {
    const { memory } = this.#parts
    const wall = memory.wall()
    const stored = job === null ? {} : wantsOf([job], { now, wall }, this.#parts)
    const asked = [...(wants.asked ?? []), ...(stored.asked ?? [])]
    const sides = [wanted(ENTRIES, [name]), ...(wants.sides ?? []), ...(stored.sides ?? [])]
    return this.#write({ ...stored, asked, sides }, run, wall)
  }

  #write<T>(
    wants: Wants,
    run: (book: Book, draft: Draft) => T,
    wall = this.#parts.memory.wall(),
    isAlone = false,
  ): Promise<T> {
    const { groups, schema } = this.#parts
    const onDraft = (draft: Draft) => run(new DraftCronBook(draft, schema, wall), draft)
    return groups.write({ wants, run: onDraft, isAlone })
  }
}

export function cronReads(schema: string, reader: Reader): CronReads {
  const entries = selectSide(schema, ENTRIES)
  const page = async (which: string, order: string, values: readonly unknown[]) =>
    (await reader.rows(pageOf(schema, `${entries} ${which}`, order), values)).map(entryOf)
  const total = async () => {
    const [row] = await reader.rows(`SELECT count(*) AS n FROM ${schema}.cron_jobs`)
    return Number(row?.['n'])
  }
  return {
    find: async (name) => (await page('WHERE name = $1', 'seq', [name]))[0] ?? null,
    list: async ({ limit, offset }) => {
      const some = await page('ORDER BY seq LIMIT $1 OFFSET $2', 'seq', [limit, offset])
      return { entries: some, total: await total() }
    },
    due: async (wall, limit) => {
      const due = `WHERE next_run_at IS NOT NULL AND next_run_at <= $1
        ORDER BY next_run_at, seq LIMIT $2`
      return (await page(due, '"nextRunAt", seq', [wall, limit])) as DueEntry[]
    },
    ahead: async (wall, after, limit) => {
      const text = `SELECT seq, name, expression, timezone, next_run_at AS "nextRunAt"
        FROM ${schema}.cron_jobs WHERE seq > $1 AND next_run_at > $2 ORDER BY seq LIMIT $3`
      const rows = await reader.rows(text, [after, wall, limit])
      return rows as readonly unknown[] as CronStanding[]
    },
    releasable: (after, limit) => {
      const free = `WHERE queued IS NOT NULL AND name > $1 AND is_enabled AND NOT EXISTS (
          SELECT 1 FROM ${schema}.jobs j WHERE j.cron_entry = cron_jobs.seq AND j.ended_at IS NULL)
        ORDER BY name LIMIT $2`
      return page(free, '"sideKey"', [after, limit])
    },
    runs: (name, some) => runsOf(schema, reader, name, some),
  }
}

/** As many of the entries as are in memory at once, at least one. */
function pageOf(schema: string, entries: string, order: string): string {
  return `SELECT p.* FROM (
      SELECT e.*, t.template, row_number() OVER (ORDER BY ${order}) AS place,
        sum(octet_length(t.template)) OVER (ORDER BY ${order}) AS bytes
      FROM (${entries}) e JOIN ${schema}.cron_templates t ON t.name = e."sideKey") p
    WHERE place = 1 OR bytes <= ${MAX_LIST_BYTES} ORDER BY place`
}

function entryOf({ sideKey, template, place: _, bytes: __, ...row }: Row): CronEntry {
  return toEntry(toState(String(sideKey), row as EntryRow), String(template))
}

async function runsOf(
  schema: string,
  reader: Reader,
  name: string,
  { limit, offset }: { limit: number; offset: number },
): Promise<{ runs: CronRun[]; total: number }> {
  const own = `(SELECT seq FROM ${schema}.cron_jobs WHERE name = $1)`
  const isGone = `j.state IS NULL OR j.state = 'withdrawn'`
  const as = (column: string, shown: string) =>
    `CASE WHEN ${isGone} THEN r.${column} ELSE j.${column} END AS "${shown}"`
  const text = `SELECT r.scheduled_at AS "scheduledAt", r.is_manual AS "isManual",
      r.job_id AS "jobId", r.reason, ${as('state', 'state')},
      ${as('started_at', 'startedAt')}, ${as('ended_at', 'endedAt')}
    FROM ${schema}.cron_runs r LEFT JOIN ${schema}.jobs j ON j.id = r.job_id
    WHERE r.entry = ${own} ORDER BY r.seq DESC LIMIT $2 OFFSET $3`
  const count = `SELECT count(*) AS n FROM ${schema}.cron_runs WHERE entry = ${own}`
  const runs = await reader.rows(text, [name, limit, offset])
  const [kept] = await reader.rows(count, [name])
  return { runs: runs as readonly unknown[] as CronRun[], total: Number(kept?.['n']) }
}
