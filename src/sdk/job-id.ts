import { v7 } from 'uuid'

/** A UUIDv7 in lower case, as a server would mint it (seed 001 §6.4). */
export function newJobId(): string {
  return v7()
}
