import type { Delivery } from '../../broker/broker.ts'
import { busy, type MemoryShare, UNCOUNTED_BYTES } from '../../memory.ts'
import { heapOfText } from '../../schemas/json/json-heap.ts'
import type { Deps } from '../deps.ts'

/**
 * Returns the leading deliveries that `memory` has room for, since each becomes a row and a part of the
 * answer; puts the others back into the buffer. Throws 503 when there is no room for any.
 */
export function withinMemory(
  deps: Deps,
  deliveries: Delivery[],
  memory: MemoryShare | undefined,
): Delivery[] {
  if (memory === undefined || isUncounted(deliveries)) return deliveries
  const firstWithoutRoom = deliveries.findIndex(
    ({ message }) => !memory.take(heapOfText(message.content)),
  )
  if (firstWithoutRoom === -1) return deliveries
  deps.broker.putBack(deliveries.slice(firstWithoutRoom))
  if (firstWithoutRoom === 0) throw busy()
  return deliveries.slice(0, firstWithoutRoom)
}

function isUncounted(deliveries: readonly Delivery[]): boolean {
  let bytes = 0
  for (const { size } of deliveries) bytes += size
  return bytes < UNCOUNTED_BYTES
}
