/** The names of a ledger's objects: a PostgreSQL schema for each `OJS_PREFIX`. */

/**
 * The schema's quoted name. Every statement names it: a `search_path` is a state of the session, which
 * PgBouncer hands to another client. A prefix has at most 32 characters, so the name fits PostgreSQL's 63
 * bytes; a longer one would be cut, and two prefixes could share a ledger.
 */
export function schemaOf(prefix: string): string {
  return prefix === '' ? '"ojs"' : `"ojs_${prefix}"`
}
