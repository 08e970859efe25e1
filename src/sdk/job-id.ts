import { v7 } from 'uuid'

/** A UUIDv7, lower case: what a server would mint itself (seed 001 §6.4). */
export function newJobId(): string {
  return v7()
}
