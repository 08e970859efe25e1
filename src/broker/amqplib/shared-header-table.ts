/** One header table for all publishes, so that amqplib's encoder costs less. */
import { type HeaderTable, OJS_HEADERS } from '../messages/headers.ts'

/** Always has the same members in the same order; headers that a message lacks are undefined. */
const shared: HeaderTable = Object.fromEntries(
  Object.values(OJS_HEADERS).map((name) => [name, undefined]),
)

/**
 * Copies the headers into one table that all publishes share; amqplib encodes them before `publish` returns.
 * amqplib makes the table the prototype of another object, which costs V8 3 µs for each new table. Headers
 * that are not OJS's own are returned unchanged. Delete when amqplib encodes headers without making a prototype
 * of them.
 */
export function lent(headers: HeaderTable): HeaderTable {
  for (const name in headers) if (!Object.hasOwn(shared, name)) return headers
  for (const name in shared) shared[name] = headers[name]
  return shared
}
