/** Jobs whose message RabbitMQ has lost. */
import { isMessageLost, rearmed } from '../../../job/transitions/due.ts'
import type { EnqueuedSpan, LostMessages } from '../../queues.ts'
import type { LostMessageReads } from '../../reads.ts'
import type { Draft } from '../group/draft.ts'
import type { Groups } from '../group/groups.ts'
import type { PartDeps } from '../part.ts'
import type { Reader } from '../reader.ts'
import { beginning, type Cursor, inPages, PAGE, type Page } from './lost.ts'

export class PostgresLostMessages implements LostMessages, LostMessageReads {
  readonly #groups: Groups
  readonly #reader: Reader
  readonly #schema: string

  constructor({ groups, reader, schema }: PartDeps) {
    this.#groups = groups
    this.#reader = reader
    this.#schema = schema
  }

  async list(queue: string, span: EnqueuedSpan, limit: number): Promise<string[]> {
    const all = { after: 0, upTo: Number.MAX_SAFE_INTEGER }
    const { text, values } = lost(this.#schema, queue, span, all, limit)
    return (await this.#reader.rows(text, values)).map(({ id }) => String(id))
  }

  rearm(queue: string, span: EnqueuedSpan): Promise<number> {
    return inPages(this.#groups, (draft, cursor) => rearmPage(draft, queue, span, cursor))
  }
}

/** The queue's live rows are looked at in order of arrival, until there are `limit` of them. */
function lost(
  schema: string,
  queue: string,
  { after, before }: EnqueuedSpan,
  cursor: Cursor,
  limit: number,
) {
  const text = `SELECT seq, id FROM ${schema}.jobs
    WHERE queue = $1 AND ended_at IS NULL AND seq > $2 AND seq <= $3 AND state = 'available'
      AND outbox IS NULL AND holder IS NULL AND enqueued_at > $4 AND enqueued_at <= $5
    ORDER BY seq LIMIT $6`
  const since = after ?? Number.MIN_SAFE_INTEGER
  return { text, values: [queue, cursor.after, cursor.upTo, since, before, limit] }
}

function rearmPage(draft: Draft, queue: string, span: EnqueuedSpan, cursor: Cursor | null): Page {
  const from = cursor ?? beginning(draft, draft.schema)
  const found = draft.ask(lost(draft.schema, queue, span, from, PAGE))
  const rows = draft
    .rows(found.map(({ id }) => String(id)))
    .filter((row) => isMessageLost(row, span))
  for (const row of rows) draft.change(row, rearmed(row, draft.nextNonce(), true))
  const after = Number(found.at(-1)?.['seq'])
  return { rearmed: rows.length, next: found.length < PAGE ? null : { ...from, after } }
}
