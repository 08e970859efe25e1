import type { Deps } from './deps.ts'

export interface QueueList {
  queues: { name: string; status: 'active'; createdAt: number }[]
  total: number
}

/** Every queue that was ever used, oldest first (seed 001 §11.1). From memory. */
export function listQueues(
  deps: Pick<Deps, 'ledger'>,
  page: { limit: number; offset: number },
): QueueList {
  const all = deps.ledger.queues()
  const queues = all
    .slice(page.offset, page.offset + page.limit)
    .map(({ name, createdAt }) => ({ name, status: 'active' as const, createdAt }))
  return { queues, total: all.length }
}
