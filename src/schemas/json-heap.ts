import { isAscii } from 'node:buffer'
import { heapOfValues } from './json-text.ts'

/** Text is here as what it says, as a row and as an answer; once more while one becomes the other. */
const COPIES = 4
/** Of a message: its text while it is parsed, and once more as a row. */
const COPIES_OF_MESSAGE = 2
/** `{` takes 72 bytes, every second byte may be one, and text may take two for each. */
const MOST_PER_BYTE = 72 / 2 + 2 * COPIES_OF_MESSAGE

/**
 * What JSON takes in the heap while it is worked on, beside its values (`json-text.ts`). A single
 * character that is not Latin makes a string take two bytes for each.
 */
export function heapOfText(text: Buffer, copies = COPIES): number {
  const isNarrow = isAscii(text) && !text.includes('\\u')
  return copies * text.length * (isNarrow ? 1 : 2)
}

/**
 * False: reading this message would fill the heap, which ends the process, and RabbitMQ would give the
 * message to the next one. `room`: how many bytes a message may take. Callers give `MAX_ALONE`, all that
 * there is for one thing: unlike an HTTP request a message cannot be told to come again later.
 */
export function hasRoomToRead(content: Buffer, room: number): boolean {
  // All but the largest on a small heap: these need no look.
  if (content.length * MOST_PER_BYTE <= room) return true
  return heapOfText(content, COPIES_OF_MESSAGE) + heapOfValues(content) <= room
}
