import { heapOfText, MAX_ALONE } from '../memory.ts'
import { heapOfValues } from './json-text.ts'

/** Its text while it is parsed, and once more as a row. */
const COPIES = 2
/** `{` takes 72 bytes, every second byte may be one, and text may take two for each. */
const MOST_PER_BYTE = 72 / 2 + 2 * COPIES

/**
 * False: reading this message would fill the heap, which ends the process, and RabbitMQ gives it to the
 * next one. Unlike an HTTP request, which is told to come again, it is taken where it fits alone.
 */
export function hasRoomToRead(content: Buffer, room = MAX_ALONE): boolean {
  // All but the largest on a small heap: these need no look.
  if (content.length * MOST_PER_BYTE <= room) return true
  return heapOfText(content, COPIES) + heapOfValues(content) <= room
}
