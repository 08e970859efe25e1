import type { Delivery } from '../../broker/broker.ts'
import { busy, type MemoryShare, UNCOUNTED_BYTES } from '../../memory.ts'
import { heapOfText } from '../../schemas/json-heap.ts'
import type { Deps } from '../deps.ts'

/**
 * The first of them, as many as there is memory for: they become rows, and an answer. The others go
 * back. Throws 503 where it is for none.
 */
export function withinMemory(
  deps: Deps,
  deliveries: Delivery[],
  memory: MemoryShare | undefined,
): Delivery[] {
  if (memory === undefined || isLittle(deliveries)) return deliveries
  const none = deliveries.findIndex(({ message }) => !memory.take(heapOfText(message.content)))
  if (none === -1) return deliveries
  deps.broker.putBack(deliveries.slice(none))
  if (none === 0) throw busy()
  return deliveries.slice(0, none)
}

function isLittle(deliveries: readonly Delivery[]): boolean {
  let bytes = 0
  for (const { size } of deliveries) bytes += size
  return bytes < UNCOUNTED_BYTES
}
