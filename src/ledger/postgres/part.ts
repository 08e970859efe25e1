/** What the parts of the ledger work with that have writes and reads of their own. */
import type { Groups } from './group/groups.ts'
import type { Memory } from './group/memory.ts'
import type { Reader } from './reader.ts'

export interface PartDeps {
  schema: string
  groups: Groups
  reader: Reader
  memory: Memory
}
