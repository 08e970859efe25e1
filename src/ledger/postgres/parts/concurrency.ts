/** Concurrency keys: the contract's part, and how many jobs of a key run. */
import type { ConcurrencyLedger } from '../../concurrency.ts'
import type { Reads } from '../../reads.ts'
import { freed } from '../../writes/lines.ts'
import type { Draft } from '../group/draft.ts'
import type { Groups } from '../group/groups.ts'
import { DraftLines, heldKeys, heldQueues, lineWants } from '../group/lines.ts'
import type { Memory } from '../group/memory.ts'
import type { Reader } from '../reader.ts'

/** Queues of one key that one load of a review looks at. */
const PAGE = 1_000

interface ConcurrencyParts {
  groups: Groups
  schema: string
  memory: Memory
  reader: Reader
}

export function concurrencyLedger(parts: ConcurrencyParts): ConcurrencyLedger {
  const { groups, schema, memory, reader } = parts
  return {
    onNews(listener) {
      memory.tellKeys = listener
    },
    async review(after, limit) {
      const { text, values } = heldKeys(schema, after, limit)
      const keys = (await reader.rows(text, values)).map(({ key }) => String(key))
      if (keys.length === 0) return null
      const run = (draft: Draft) => {
        for (const key of keys) reviewKey(draft, key)
      }
      await groups.write({ wants: {}, run, weight: keys.length, isAlone: true })
      return keys.length < limit ? null : (keys.at(-1) ?? null)
    },
  }
}

function reviewKey(draft: Draft, key: string): void {
  const lines = new DraftLines(draft)
  for (let after = ''; ; ) {
    const found = draft.ask(heldQueues(draft.schema, key, after, PAGE))
    const queues = found.map(({ queue }) => String(queue))
    draft.require(
      lineWants(
        draft.schema,
        queues.map((queue) => ({ key, queue })),
      ),
    )
    for (const queue of queues) freed(lines, { key, queue }, false)
    const last = queues.at(-1)
    if (last === undefined || queues.length < PAGE) return
    after = last
  }
}

export function concurrencyReads(schema: string, reader: Reader): Reads['concurrency'] {
  return {
    active: async (key) => {
      const text = `SELECT active FROM ${schema}.concurrency WHERE key = $1`
      return Number((await reader.rows(text, [key]))[0]?.['active'] ?? 0)
    },
  }
}
