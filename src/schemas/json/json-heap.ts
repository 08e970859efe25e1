/** Estimates the heap that a JSON text takes while it is processed. */
import { isAscii } from 'node:buffer'
import { heapOfValues } from './json-text.ts'

/** Copies of a text: as values, as a row and as an answer, and one more during a conversion. */
const COPIES = 4
/** The same for a message: its text while it is parsed, and once more as a row. */
export const COPIES_OF_MESSAGE = 2
/**
 * The most that a message takes per byte: every second byte may be a `{`, which takes 72 bytes, and each copy
 * of the text may take two bytes per character.
 */
const MOST_PER_BYTE = 72 / 2 + 2 * COPIES_OF_MESSAGE

/**
 * The heap that a JSON text takes while it is processed, without its values (`json-text.ts`). A single
 * character beyond Latin-1 makes a string take two bytes per character.
 */
export function heapOfText(text: Buffer, copies = COPIES): number {
  const isNarrow = isAscii(text) && !text.includes('\\u')
  return copies * text.length * (isNarrow ? 1 : 2)
}

/**
 * Whether there is room to read a message. Without this check a large message would fill the heap and end the
 * process, and RabbitMQ would redeliver it to the next process. `room`: how many bytes a message may take.
 * Callers pass `MAX_ALONE`, all that a single request may have, because a message cannot be told to come
 * again later, as an HTTP request can.
 */
export function hasRoomToRead(content: Buffer, room: number): boolean {
  // True for nearly every message, which then need not be scanned.
  if (content.length * MOST_PER_BYTE <= room) return true
  return heapOfText(content, COPIES_OF_MESSAGE) + heapOfValues(content) <= room
}
