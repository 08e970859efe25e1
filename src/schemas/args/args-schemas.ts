/** A cache of compiled schemas, bounded by their memory. */
import { type ArgsSchema, compileArgsSchema } from './args-schema.ts'

/** The limit of all cached schemas together; a compiled subschema takes some 4 kB. */
const MAX_SUBSCHEMAS = 20_000

/** A cache of compiled schemas by registration, which drops those that were not used for longest. */
export class ArgsSchemas {
  readonly #capacity: number
  readonly #compiled = new Map<number, ArgsSchema>()
  #size = 0
  #isLong = false

  constructor(capacity: number = MAX_SUBSCHEMAS) {
    this.#capacity = capacity
  }

  /** The compiled schema, if it is in the cache; it was used just now. */
  get(registration: number): ArgsSchema | undefined {
    const schema = this.#compiled.get(registration)
    if (schema === undefined) return undefined
    this.#compiled.delete(registration)
    this.#compiled.set(registration, schema)
    return schema
  }

  /** Compiles a schema and keeps it. `content`: JSON text. */
  add(registration: number, content: string): ArgsSchema {
    const schema = this.get(registration) ?? compiled(content)
    if (!this.#compiled.delete(registration)) this.#size += schema.room
    this.#compiled.set(registration, schema)
    this.#shrink(registration)
    return schema
  }

  /** A request may compile for long, until `endLong`. False: another one does. */
  beginLong(): boolean {
    if (this.#isLong) return false
    this.#isLong = true
    return true
  }

  endLong(): void {
    this.#isLong = false
  }

  #shrink(newest: number): void {
    for (const [registration, { room }] of this.#compiled) {
      if (this.#size <= this.#capacity || registration === newest) return
      this.#compiled.delete(registration)
      this.#size -= room
    }
  }
}

/** `isTried`, because it was tried when it was registered. */
function compiled(content: string): ArgsSchema {
  return compileArgsSchema(JSON.parse(content), { isTried: true })
}
